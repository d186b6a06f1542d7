"""Network proxy of a sandbox: hosts by an allow list, and nothing else.

Responsibilities: HTTP CONNECT, plain HTTP and SOCKS5 from inside; names looked up outside; no
private address by any name; bounded in connections, bytes and time; who was refused what.

Flow at a glance:
1. A provider whose network is `allow` opens a proxy for each sandbox, and gives commands its
   variables.
2. `server` accepts, `requests` reads what is wanted, `connection` judges it by the list.
3. `lookup` finds the addresses, `addresses` says which are private, `connection` carries the bytes.

Files, in reading order:
  server        NetworkProxy, and the variables that lead to it
  connection    one client
  requests      HTTP and SOCKS5
  request_body  where a request of plain HTTP ends
  lookup        names outside
  addresses     private ranges
"""
