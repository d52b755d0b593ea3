// A Python traceback that begins at the user's own line: frames of Funken, Spark and Python's library are folded.

import { el } from "./dom.js";

// Installed packages, Python's library, generated code; Funken and Spark from a source folder or an archive.
const LIBRARIES = /^<(?:frozen|funken)|[\\/](?:site-packages|dist-packages|lib[\\/]python\d[^\\/]*)[\\/]|(?:[\\/]src|\.zip)[\\/]funken[\\/]|(?:[\\/]python|\.zip)[\\/]pyspark[\\/]/;
const PLACE = /^ {2}File "(.*)", line \d+/;

// Parts of a traceback: texts, and frames that are the user's or not.
export function parts(text) {
  const found = [];
  for (const line of text.split("\n")) {
    const place = PLACE.exec(line);
    const last = found[found.length - 1];
    if (place) found.push({ frame: true, own: !LIBRARIES.test(place[1]), lines: [line] });
    else if (last && last.frame && line.startsWith("    ")) last.lines.push(line);
    else if (last && !last.frame) last.lines.push(line);
    else found.push({ frame: false, lines: [line] });
  }
  return found;
}

export function tracebackView(text) {
  const node = el("pre", { class: "traceback" });
  let folded = null;
  for (const part of parts(text.trimEnd())) {
    const lines = `${node.textContent ? "\n" : ""}${part.lines.join("\n")}`;
    if (!part.frame || part.own) {
      folded = null;
      node.append(part.own ? el("b", { class: "own" }, lines) : lines);
      continue;
    }
    if (!folded) {
      folded = el("details", {}, el("summary"));
      folded.frames = 0;
      node.append(folded);
    }
    folded.frames += 1;
    folded.firstChild.textContent = `${folded.frames} frame${folded.frames === 1 ? "" : "s"} of libraries`;
    folded.append(el("span", {}, lines));
  }
  return node;
}
