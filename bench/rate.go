package bench

import (
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/policy"
)

// grain is how exact the engine's times are.
const grain = int64(time.Microsecond)

// rates looks for starts that the rate of a limit does not allow: in no window of time may
// there be more than the burst and one for each interval.
//
// It looks twice. What the rate is promised of are the grabs, so their times are held
// against every window; but they are the engine's own word. Handlers are called later than
// that, by a time that differs, so that calls may crowd where grabs did not. Yet as many
// were grabbed as are called, and none before it was submitted: calls are held against the
// windows that begin with the first submit.
func (v *verifier) rates() {
	if !v.ses.s.rated() {
		return
	}
	type place struct {
		gate  *gate
		value int
	}
	under := make(map[place][]*record)
	for _, rec := range v.ses.records.all {
		if rec.started == 0 {
			continue
		}
		for _, g := range v.ses.gates[rec.flow] {
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

// crowd is more starts than are allowed in some time.
type crowd struct {
	starts, allowed int64
	in              time.Duration
}

func (v *verifier) crowds(g *gate, value int, what string, found []crowd) {
	for _, c := range found {
		v.fail(noteExceeded, &v.check.Exceeded, "limit %s (value %d): %d %s within %v, of %d allowed", g.name, value, c.starts, what, c.in, c.allowed)
	}
}

// interval returns the nanoseconds from one start to the next at a rate.
func interval(r policy.Rate) int64 { return max(1, int64(r.Per)/int64(r.Count)) }

// startsIn returns how many starts a rate allows in a time.
func startsIn(r policy.Rate, in int64) int64 {
	burst := int64(r.Burst)
	if burst == 0 {
		burst = int64(r.Count)
	}
	return burst + (in+grain)/interval(r)
}

// crowded returns one crowd for each start that comes too soon after others before it,
// that from which on it does so the most. The times are sorted.
func crowded(at []int64, r policy.Rate) (found []crowd) {
	// The starts from j to i are the most for their time if at[j] is the most behind its
	// turn, which is interval*j.
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

// early returns one crowd for each start that comes too soon after a time.
func early(at []int64, from int64, r policy.Rate) (found []crowd) {
	for i, t := range at {
		starts, in := int64(i+1), t-from
		if most := startsIn(r, in); starts > most {
			found = append(found, crowd{starts, most, time.Duration(in)})
		}
	}
	return found
}
