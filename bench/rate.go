package bench

import (
	"slices"
	"time"

	"github.com/taskengine/taskengine/policy"
)

// grain is the resolution of the times of the engine.
const grain = int64(time.Microsecond)

// rates looks for starts that the rate of a limit does not allow: no window of time may have more
// starts than the burst and one for each interval.
//
// It checks two kinds of times. The promise is about grabs, so the times of grabs are checked in every
// window; but these times come from the engine itself. The calls of handlers are observed here. They
// follow the grabs after varying times, so calls may be closer together than grabs. Yet each call had
// a grab, and no grab is before the submit: so calls are checked in the windows that begin with the
// first submit.
func (v *verifier) rates() {
	if !v.rep.s.rated() {
		return
	}
	type place struct {
		gate  *gate
		value int
	}
	under := make(map[place][]*record)
	for _, rec := range v.rep.records.all {
		if rec.started == 0 {
			continue
		}
		for _, g := range v.rep.gates[rec.flow] {
			if !g.rate.IsZero() {
				at := place{g, g.value(rec, 0)}
				under[at] = append(under[at], rec)
			}
		}
	}
	for at, recs := range under {
		var grabs, calls []int64
		first := recs[0].called
		for _, rec := range recs {
			grabs, calls, first = append(grabs, rec.grabbed), append(calls, rec.started), min(first, rec.called)
		}
		slices.Sort(grabs)
		slices.Sort(calls)
		v.crowds(at.gate, at.value, "grabs", crowded(grabs, at.gate.rate))
		v.crowds(at.gate, at.value, "calls", early(calls, first, at.gate.rate))
	}
}

// crowd is a window with more starts than allowed.
type crowd struct {
	starts, allowed int64
	in              time.Duration
}

func (v *verifier) crowds(g *gate, value int, what string, found []crowd) {
	for _, c := range found {
		v.fail(noteExceeded, &v.check.Exceeded, "limit %s (value %d): %d %s within %v, of %d allowed", g.name, value, c.starts, what, c.in, c.allowed)
	}
}

// interval returns the nanoseconds between two starts at a rate.
func interval(r policy.Rate) int64 { return max(1, int64(r.Per)/int64(r.Count)) }

// startsIn returns the number of starts that a rate allows in a time.
func startsIn(r policy.Rate, in int64) int64 {
	burst := int64(r.Burst)
	if burst == 0 {
		burst = int64(r.Count)
	}
	return burst + (in+grain)/interval(r)
}

// crowded returns a crowd for each start that comes too soon after earlier ones: the window that
// exceeds the rate the most. The times are sorted.
func crowded(at []int64, r policy.Rate) (found []crowd) {
	// The window from j to i exceeds the rate the most if at[j] is the latest compared with
	// its turn, which is interval*j.
	behind := func(j int) int64 { return at[j] - interval(r)*int64(j) }
	worst := 0
	for i := range at {
		if behind(i) > behind(worst) {
			worst = i
		}
		starts, in := int64(i-worst+1), at[i]-at[worst]
		if most := startsIn(r, in); starts > most {
			found = append(found, crowd{starts, most, time.Duration(in)})
		}
	}
	return found
}

// early returns a crowd for each start that comes too soon after a time.
func early(at []int64, from int64, r policy.Rate) (found []crowd) {
	for i, t := range at {
		starts, in := int64(i+1), t-from
		if most := startsIn(r, in); starts > most {
			found = append(found, crowd{starts, most, time.Duration(in)})
		}
	}
	return found
}
