# attack: raises its own limits above what it was given
# layer: capabilities
import resource

from kit import broke, tries

for name in ("RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_AS", "RLIMIT_CORE", "RLIMIT_MEMLOCK"):
    kind = getattr(resource, name)
    _soft, hard = resource.getrlimit(kind)
    if hard == resource.RLIM_INFINITY:
        if name != "RLIMIT_MEMLOCK":
            broke(f"{name} is not limited")
        continue
    tries(f"raised {name}", resource.setrlimit, kind, (hard + 1, hard + 1))
    tries(f"removed {name}", resource.setrlimit, kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
