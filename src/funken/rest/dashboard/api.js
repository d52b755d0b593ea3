// Requests to the server this page came from. With a token, it is kept for this tab only.

const TOKEN = "funken-token";

export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

export const setToken = (token) => sessionStorage.setItem(TOKEN, token);

export async function api(path, { method = "GET", body } = {}) {
  const headers = { accept: "application/json" };
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.authorization = `Bearer ${token}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(15000),
      cache: "no-store",
    });
  } catch (error) {
    throw new ApiError("The driver does not answer: it has ended, or cannot be reached.", 0);
  }
  let data = null;
  try {
    data = await response.json();
  } catch (error) {
    if (response.ok) throw new ApiError("The driver's answer is no JSON.", response.status);
  }
  if (!response.ok) throw new ApiError((data && data.errors ? data.errors : [response.statusText]).join("\n"), response.status);
  return data;
}

export const jobPath = (id) => `/jobs/${encodeURIComponent(id)}`;
