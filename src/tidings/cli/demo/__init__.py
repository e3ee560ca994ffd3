"""What `tidings demo` plays: four brokers on this machine, a market, and desks that listen.

`demonstration` is the play and its referee, `stage` is what a terminal shows of it, and
`chronicle` is the lake that is asked afterwards. Nothing here is used by any other command.
"""
