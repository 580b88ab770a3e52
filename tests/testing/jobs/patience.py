"""For jobs on a machine with much else to do, where a second is soon over."""


def be_patient(seconds=120.0):
    """Has the plug-in wait for the daemon that long. Returns how long it was before."""
    from kiln import client, sockets
    from kiln._plugin import service
    before = client.Client.__init__.__kwdefaults__["answer_timeout"]
    sockets.Endpoint.__init__.__defaults__ = tuple(seconds if isinstance(one, float) else one for one in sockets.Endpoint.__init__.__defaults__)
    client.Client.__init__.__kwdefaults__.update(connect_timeout=seconds, answer_timeout=seconds)
    service._OWN_TIMEOUT_S = seconds
    return {"before": before}
