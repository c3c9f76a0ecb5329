"""A meter follows a training step from phase to phase and reports peaks."""


def meter_for(device, spec):
    if device.type == "meta":
        import cuda_ops
        from meter_meta import StorageMeter
        cuda_ops.install(spec["attention"])
        return StorageMeter()
    if device.type == "cpu":
        from meter_cpu import ProfilerMeter
        return ProfilerMeter()
    from devices import used_before
    from meter_cuda import AllocatorMeter
    return AllocatorMeter(device, used_before(device))
