package policy

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/task"
)

// Unique defines the key of a request, and the effect of a request with the key of another task of its type.
type Unique struct {
	OnConflict OnConflict

	// By names the values that make the key of a request without one, in this order: "payload." and the
	// names of JSON members, "headers." and a name, or "ordering_key". The first may be "key", which stands for the key
	// that a request has; the others do not matter then.
	By []string

	// Remember is for how long the key of a task is taken after the task was done, if that is longer than
	// [Retention.Done]. When the retention is over, the row of such a task stays without its content. 0 is
	// not longer. Keys of tasks that end in another way are not remembered.
	Remember time.Duration

	// Window is the time from the creation of a task on in which no other task with its key is added. Only with
	// ThrottleNew, which needs it.
	Window time.Duration
}

// IsDefault reports whether nothing is configured: the tasks of such a type are not read to answer a request.
func (u *Unique) IsDefault() bool {
	return u.OnConflict == KeepExisting && len(u.By) == 0 && u.Remember == 0 && u.Window == 0
}

// Remembers returns for how long the key of a task is taken after the task was done, if that is longer than
// [Retention.Done].
func (u *Unique) Remembers() time.Duration { return max(u.Remember, u.Window) }

// Places returns the places of By that make a key.
func (u *Unique) Places() []string {
	if len(u.By) > 0 && u.By[0] == "key" {
		return u.By[1:]
	}
	return u.By
}

// OnConflict is the effect of a request with a taken key, see [task.Resolve].
type OnConflict = task.OnConflict

// The values of OnConflict.
const (
	KeepExisting     = task.KeepExisting
	RejectNew        = task.RejectNew
	ReplaceExisting  = task.ReplaceExisting
	DebounceExisting = task.DebounceExisting
	ThrottleNew      = task.ThrottleNew
)

func (c *checker) unique(u Unique, at func(...string) []string) {
	switch {
	case u.OnConflict > ThrottleNew:
		c.add("must be keep, reject, replace, debounce or throttle", at("unique", "on_conflict")...)
	case u.Window < 0:
		c.add("must be more than 0", at("unique", "window")...)
	case u.OnConflict == ThrottleNew && u.Window == 0:
		c.add("throttle needs window: how long after a task no other one with its key is added, such as 1h", at("unique", "on_conflict")...)
	case u.OnConflict != ThrottleNew && u.Window != 0:
		c.add(fmt.Sprintf("has no effect with on_conflict %v; use on_conflict: throttle, or remove it", u.OnConflict), at("unique", "window")...)
	}
	if u.Remember < 0 {
		c.add("must be 0 (as long as the task is kept) or more", at("unique", "remember")...)
	}
	for i, place := range u.By {
		first, rest, _ := strings.Cut(place, ".")
		isIn := rest != "" && (first == "payload" || first == "headers")
		switch {
		case place == "key" && i > 0:
			c.add("key comes first: it is the key that a request has, instead of one that the other places make", at("unique", "by", strconv.Itoa(i))...)
		case !isIn && place != "key" && place != "ordering_key":
			c.add(fmt.Sprintf("%q is not a place in a request; write payload.NAME, headers.NAME, ordering_key or key", place), at("unique", "by", strconv.Itoa(i))...)
		}
	}
}
