"""The broker: a node on the network. Sockets, disk, clocks and signals live here, decisions do not.

`Host` has what the node wants done carried out, in order and with one commit for many; `Broker`
puts it behind a port, where clients and neighbours are admitted, held to limits and kept alive.
Whatever routes, matches or delivers belongs to the node, where the simulator can break it.
"""
