package limits

import (
	"cmp"
	"slices"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/task"
)

// Semaphore has the holders of the permits of one limit. It decides about orders as [coord.Semaphore] describes, for
// backends with a coordinator that cannot decide by itself. The zero value is a limit without holders.
// Its owner calls one method at a time.
type Semaphore struct {
	Max       int        `json:"max"`
	Version   uint64     `json:"version,omitempty"` // of Max
	Standings []Standing `json:"standings"`         // waiting holders are in the order in which they are served
}

// Standing has the permits that a holder has and wants of a limit.
type Standing struct {
	Holder task.ID   `json:"holder"`
	Held   int       `json:"held"`
	Want   int       `json:"want"` // more than 0
	Least  int       `json:"least"`
	Fence  uint64    `json:"fence,omitempty"` // of the latest grant
	Since  time.Time `json:"since"`           // the latest grant, or the beginning of the wait if there was none
}

// Waits reports whether the holder has less than it wants.
func (st *Standing) Waits() bool { return st.Held < st.Want }

// waits reports whether st can get some of the permits that it wants.
func (s *Semaphore) waits(st *Standing) bool { return st.Waits() && st.Least <= s.Max }

// Find returns the standing of a holder, and nil if it has and wants nothing. The result is valid until the next change.
func (s *Semaphore) Find(holder task.ID) *Standing {
	i := slices.IndexFunc(s.Standings, func(st Standing) bool { return st.Holder == holder })
	if i < 0 {
		return nil
	}
	return &s.Standings[i]
}

// Order replaces the order of a holder. [Semaphore.Serve] must follow.
func (s *Semaphore) Order(holder task.ID, o coord.Order, now time.Time) {
	want, least, most := Clamp(o.Want, o.Least, o.Max, coord.MaxPermits)
	if o.Version >= s.Version {
		s.Max, s.Version = most, o.Version
	}
	st := Standing{Holder: holder, Since: now}
	if found := s.Find(holder); found != nil {
		st = *found
	}
	waited := st.Waits()
	st.Held, st.Want, st.Least = min(st.Held, want), want, least
	if st.Held == 0 && !waited {
		st.Since = now
	}
	switch {
	case want == 0:
		s.Remove(holder)
	case waited:
		*s.Find(holder) = st
	default:
		s.Remove(holder)
		s.Standings = append(s.Standings, st)
	}
}

// Remove takes back everything of a holder. [Semaphore.Serve] must follow.
func (s *Semaphore) Remove(holder task.ID) {
	s.Standings = slices.DeleteFunc(s.Standings, func(st Standing) bool { return st.Holder == holder })
}

// Serve grants free permits in the order of the standings. The fences of the grants follow fence, the newest one of
// the limit, which Serve raises. It returns the holders that have got permits.
func (s *Semaphore) Serve(now time.Time, fence *uint64) (granted []task.ID) {
	free := s.Max - s.held()
	for i := range s.Standings {
		st := &s.Standings[i]
		if !s.waits(st) {
			continue
		}
		n := min(st.Want-st.Held, free)
		if n <= 0 || st.Held+n < st.Least {
			break
		}
		free -= n
		*fence++
		st.Held, st.Fence, st.Since = st.Held+n, *fence, now
		granted = append(granted, st.Holder)
	}
	return granted
}

// held returns how many permits are held.
func (s *Semaphore) held() (sum int) {
	for _, st := range s.Standings {
		sum += st.Held
	}
	return sum
}

// Others returns the numbers about the others in the holding of st: see [coord.Holding].
func (s *Semaphore) Others(st *Standing) (share, waiting, needed int) {
	holders := 0
	for i := range s.Standings {
		if o := &s.Standings[i]; o.Held > 0 || s.waits(o) {
			holders++
		}
	}
	share = s.Max / max(holders, 1)
	for i := range s.Standings {
		o := &s.Standings[i]
		if o.Holder == st.Holder || !s.waits(o) {
			continue
		}
		waiting += o.Want - o.Held
		needs := share
		if o.Held == 0 {
			needs = max(share, o.Least)
		}
		needed += max(0, min(o.Want, needs)-o.Held)
	}
	return share, waiting, needed + max(0, s.held()-s.Max)
}

// Holders returns the holders as [coord.Semaphore] lists them.
func (s *Semaphore) Holders() []coord.Holder {
	var have, wait []coord.Holder
	for _, st := range s.Standings {
		h := coord.Holder{Holder: st.Holder, Held: st.Held, Want: st.Want, Fence: st.Fence, Since: st.Since}
		if st.Held > 0 {
			have = append(have, h)
		} else {
			h.Fence = 0
			wait = append(wait, h)
		}
	}
	slices.SortFunc(have, func(a, b coord.Holder) int { return cmp.Compare(a.Fence, b.Fence) })
	return append(have, wait...)
}
