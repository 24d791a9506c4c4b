package calendar

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

const refuseLocal = "the time zone of the machine is not allowed, because a schedule would depend on where it runs; name a zone, such as Europe/Zurich or UTC"

// isLocal reports whether a name stands for the zone of the machine.
func isLocal(name string) bool { return name == "Local" || name == "localtime" }

// LoadLocation finds a time zone of the tz database by its name, such as "Europe/Zurich" or "UTC". It
// refuses some names that time.LoadLocation accepts: "Local" and "localtime" depend on the machine,
// and the empty name and the zones below "right/", which count leap seconds, are probably mistakes.
func LoadLocation(name string) (*time.Location, error) {
	switch {
	case name == "":
		return nil, errors.New("the time zone has no name; use one such as Europe/Zurich or UTC")
	case isLocal(name):
		return nil, errors.New(refuseLocal)
	case strings.HasPrefix(name, "right/"):
		return nil, fmt.Errorf("time zone %q counts leap seconds, which clocks do not; use %q", name, strings.TrimPrefix(name, "right/"))
	}
	l, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("time zone %q is not known (%w); use a name of the tz database, such as Europe/Zurich or UTC", name, err)
	}
	return l, nil
}
