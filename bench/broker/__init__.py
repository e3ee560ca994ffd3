"""Benchmarks of the broker: real processes that talk over loopback, on the machine at hand.

`servers` starts brokers, ours and others, and asks the kernel what they cost. `crowd` is the load
generator: a publisher and up to a thousand subscribers in one process, all on raw sockets.
`systems` says how each kind of broker is spoken to, and `tongue` how ours is. The rest are the
benchmarks themselves. All of it needs Linux, and two cores: one for the broker, one for the crowd.
"""
