"""The broker: a node on the network. Sockets, disk, clocks and signals live here, decisions do not.

`Broker` is all of it, from start to stop: `Host` has what the node wants done carried out, in order
and with one commit for many; `doors` let clients and neighbours in; `store` outlives a crash;
`operations` tell the people who run it; `configuration` is its file. Whatever routes, matches or
delivers belongs to the node, where the simulator can break it.
"""
