//go:build !race

package core

import (
	"slices"
	"time"

	"github.com/taskengine/taskengine/policy"
)

// limitsOfSim has the changes by the people of a sim, and the beginnings that its rates have counted.
type limitsOfSim struct {
	few      int  // the maximum of the limit few
	isPaused bool // few is paused
	isClosed bool // the type plain is paused
	version  uint64
	begins   map[string][]time.Time // by limit
}

// countsFor returns the limits of a type in a sim.
func (s *sim) countsFor(typ, limit string) bool {
	return slices.Contains(s.set.Types[typ].Limits, limit)
}

// change has a person change a limit, or pause a type.
func (s *sim) change() {
	s.changeTo(limitsOfSim{few: 1 + s.rng.IntN(3), isPaused: s.rng.IntN(4) == 0, isClosed: s.rng.IntN(2) == 0})
}

func (s *sim) changeTo(l limitsOfSim) {
	l.version, l.begins = s.limits.version+1, s.limits.begins
	if l.begins == nil {
		l.begins = make(map[string][]time.Time)
	}
	s.limits = l
	s.core.Pause(s.now, "plain", l.isClosed)
	s.core.Override(s.now, l.version, policy.Overrides{"few": {"": {Max: &l.few, Paused: l.isPaused}}}.Live())
	s.absorb()
}

// fewRun returns how many tasks under the limit few run.
func (s *sim) fewRun() (n int) {
	for _, t := range s.running {
		if s.countsFor(t.Type, "few") {
			n++
		}
	}
	return n
}

// checkBegin fails if an attempt of a type begins that the limits do not allow to begin now.
func (s *sim) checkBegin(typ string) {
	if typ == "plain" && s.limits.isClosed {
		s.t.Fatal("a task of a paused type begins")
	}
	if s.countsFor(typ, "few") && (s.limits.isPaused || s.fewRun() > s.limits.few) {
		s.t.Fatalf("%d run under a limit of %d, paused %v, when another begins", s.fewRun(), s.limits.few, s.limits.isPaused)
	}
	for _, name := range []string{"pace", "march"} {
		if !s.countsFor(typ, name) {
			continue
		}
		r := s.set.Limits[name].Rate
		begins := append(s.limits.begins[name], s.now)
		s.limits.begins[name] = begins
		for i, at := range begins { // from each beginning on, no more than the burst and the rate since
			if allowed := r.Burst + int(s.now.Sub(at)/(r.Per/time.Duration(r.Count))); len(begins)-i > allowed {
				s.t.Fatalf("%d tasks begin within %v where the limit %s allows %d", len(begins)-i, s.now.Sub(at), name, allowed)
			}
		}
	}
}

// check fails if more tasks run than the limits allow.
func (s *sim) check() {
	if few := s.fewRun(); few > 3 || len(s.running) > s.set.Slots {
		s.t.Fatalf("%d run under the limit, %d of %d in all", few, len(s.running), s.set.Slots)
	}
	if len(s.running) > s.core.Busy() {
		s.t.Fatalf("%d handlers run on %d slots", len(s.running), s.core.Busy())
	}
}
