//go:build !race

// A simulation has no goroutines, and the race detector would make ten thousand of them take minutes.

package election

import (
	"flag"
	"fmt"
	"testing"
	"time"
)

var (
	schedules = flag.Int("schedules", 10_000, "how many random schedules are run")
	seedFlag  = flag.Uint64("seed", 0, "the seed of the only schedule to run; 0: random ones")
)

// everySchedule runs a test with many seeds.
func everySchedule(t *testing.T, test func(t testing.TB, seed uint64)) {
	if *seedFlag != 0 {
		test(t, *seedFlag)
		return
	}
	begin := uint64(time.Now().UnixNano())
	for i := range uint64(*schedules) {
		s := &seeded{TB: t, seed: begin + i}
		test(s, s.seed)
	}
}

// seeded names the seed of a schedule that fails.
type seeded struct {
	testing.TB
	seed uint64
}

func (s *seeded) Fatalf(format string, args ...any) {
	s.Helper()
	s.TB.Fatalf("-seed %d: %s", s.seed, fmt.Sprintf(format, args...))
}

// E15, G1, G5: whatever has happened, when it ends, of the candidates that reach each other the one with the lowest id
// leads, and it alone, and stays.
func TestOneLeadsOnEachIslandWhenAllIsQuiet(t *testing.T) {
	everySchedule(t, func(t testing.TB, seed uint64) {
		w := newWorld(t, seed, 2+int(seed%4), Rules{Lease: 12 * time.Second})
		w.rules.MustHear = w.rand.IntN(2) == 0
		w.maxDelay = w.random(ms, w.rules.maxDelay())
		for _, n := range w.nodes {
			n.rules = w.rules
			n.clock = w.random(-time.Hour, time.Hour)
			if w.rand.IntN(4) > 0 {
				n.stand()
			}
		}
		late := w.disturb(30 * time.Second)
		w.calm()
		w.run(late + w.within())
		w.checkIslands()
		before := w.leading()
		w.run(w.rules.Lease)
		w.checkIslands()
		w.want(before...)
	})
}

// disturb does random things for a time, and returns for how long a message may be under way then.
func (w *world) disturb(length time.Duration) time.Duration {
	const longest = 15 * time.Second
	calm := w.maxDelay
	for end := w.now + length; w.now < end; w.run(w.random(0, 3*time.Second)) {
		n := w.nodes[w.rand.IntN(len(w.nodes))]
		switch w.rand.IntN(14) {
		case 0, 1:
			if n.m == nil {
				n.stand()
			}
		case 2:
			n.stop()
		case 3:
			n.kill()
		case 4:
			n.pause(w.random(0, 20*time.Second))
		case 5, 6:
			n.cut(!n.isCut)
		case 7:
			n.isCut = false // and it does not learn that
		case 8:
			n.isMuted = !n.isMuted
		case 9:
			n.island = w.rand.IntN(3)
		case 10:
			w.loss = w.rand.Float64() / 2
		case 11:
			w.doubled = w.rand.Float64()
		case 12:
			w.maxDelay = w.random(w.minDelay, []time.Duration{calm, longest}[w.rand.IntN(2)])
		case 13:
			n.clock += w.random(-time.Hour, time.Hour)
		}
	}
	w.maxDelay = calm
	return longest
}

// calm ends all disturbances. The islands stay. One node runs at least.
func (w *world) calm() {
	w.tell("calm")
	w.loss, w.doubled = 0, 0
	running := 0
	for _, n := range w.nodes {
		n.isMuted = false
		n.cut(false)
		if n.paused {
			n.kill()
		}
		if n.m != nil {
			running++
		}
	}
	if running == 0 {
		w.nodes[0].stand()
	}
}

func (w *world) checkIslands() {
	for island := range 3 {
		var lead []int
		for _, i := range w.leading() {
			if w.nodes[i].island == island {
				lead = append(lead, i)
			}
		}
		low := w.lowest(island)
		if low < 0 && len(lead) > 0 || low >= 0 && (len(lead) != 1 || lead[0] != low) {
			w.fail("on island %d nodes %v lead, want %d", island, lead, low)
		}
	}
}

// E15, G4: without loss, cuts and pauses, no two lead at any time, whatever comes, goes, dies, is doubled, delayed and
// reordered, and whatever clocks say.
func TestNoTwoLeadAtOnceIfNothingIsLost(t *testing.T) {
	everySchedule(t, func(t testing.TB, seed uint64) {
		w := newWorld(t, seed, 2+int(seed%4), Rules{Lease: 12 * time.Second, MustHear: seed%2 == 0})
		w.maxDelay = w.random(w.minDelay, w.rules.maxDelay()-ms)
		w.doubled = w.rand.Float64()
		w.atMostOne = true
		for _, n := range w.nodes {
			n.clock = w.random(-time.Hour, time.Hour)
		}
		for end := w.now + 60*time.Second; w.now < end; w.run(w.random(0, 4*time.Second)) {
			n := w.nodes[w.rand.IntN(len(w.nodes))]
			switch w.rand.IntN(6) {
			case 0, 1, 2:
				if n.m == nil {
					n.stand()
				}
			case 3:
				n.stop()
			case 4:
				n.kill()
			case 5:
				n.clock += w.random(-time.Hour, time.Hour)
			}
		}
	})
}

// On a bus that passes a message on to all connected candidates or to none, as a database does, candidates that must hear
// themselves give up before candidates that heard them lead: no two lead at any time, if within a lease after a cut
// no candidate joins that has never heard of the one that is cut off.
func TestNoTwoLeadAtOnceWhoMustHearThemselves(t *testing.T) {
	everySchedule(t, func(t testing.TB, seed uint64) {
		w := newWorld(t, seed, 2+int(seed%4), Rules{Lease: 12 * time.Second, MustHear: true})
		w.maxDelay = w.random(w.minDelay, w.rules.maxDelay()-ms)
		w.atMostOne = true
		for i := range w.nodes {
			w.start(i)
		}
		for end := w.now + 4*time.Minute; w.now < end; w.run(w.random(w.rules.Lease, 20*time.Second)) {
			n := w.nodes[w.rand.IntN(len(w.nodes))]
			switch w.rand.IntN(6) {
			case 0, 1, 2:
				n.cut(!n.isCut)
			case 3:
				if n.m == nil {
					n.stand()
				}
			case 4:
				n.stop()
			case 5:
				n.kill()
			}
		}
	})
}
