"""HTTP, by urllib3, and WebSockets, by websockets (``pip install funken[http]``): webhooks, and sources that poll or listen.

Importing this package does not import the clients; ``service.py`` and ``websocket.py`` do, when they are needed. May import
``connectors``, ``io`` and what is below.
"""

from funken.connectors.http.source import HttpSource
from funken.connectors.http.webhook import WebhookSink, json_array, json_lines
from funken.connectors.http.websocket import WebSocketSource
from funken.connectors.sink import DeliveryGuarantee

__all__ = ["DeliveryGuarantee", "HttpSource", "WebSocketSource", "WebhookSink", "json_array", "json_lines"]
