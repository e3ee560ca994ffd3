"""Protocol: every word that crosses a seam, and its bytes. What anybody decides is elsewhere.

Here are the requests of clients and their answers, the messages between nodes, the inputs and
effects between a node and its host, the names of streams, cursors, the addresses of brokers, and
how all of it is written: on the wire and in a store. Nothing here knows what words are used for.
"""
