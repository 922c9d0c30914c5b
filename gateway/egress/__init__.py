"""The way out: rules for URLs and headers, the table of addresses, and the guarded HTTP client.

Import the client from `gateway.egress.client`; the rules load without aiohttp, so that `import gateway` stays quick.
"""
