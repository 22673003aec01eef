"""
A daemon and its clients: the protocol without sockets (wire), the client's side (client), the daemon's side (server).

TLS and files with secrets are here, since both sides need them. Client and wire need no lmdb.
"""
