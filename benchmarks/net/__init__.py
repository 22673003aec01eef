"""
The daemon over its sockets, beside beanstalkd over its own. All on loopback, in one run, in turn.

Each daemon is a process of its own, and so is each client where there are many: no interpreter is shared.
"""
