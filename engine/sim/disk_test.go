//go:build !race

package sim_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine/sim"
)

// apart yields n tasks so far apart that each has its two syncs to itself: one when it is
// inserted, one when it has ended.
func apart(n, size int) func(yield func(sim.Arrival) bool) {
	return arrivals(n, 1, func(_ *rand.Rand, a *sim.Arrival) {
		a.At, a.Wait, a.Size = a.At+time.Second, 300*time.Millisecond, size
	})
}

// logged are the costs of a disk. A sync takes a millisecond, ten after the log was made
// longer ahead, and a hundred of a log that is not.
func logged() sim.Costs {
	one := func(ms time.Duration) sim.Quantiles { return sim.Quantiles{ms * time.Millisecond} }
	return sim.Costs{
		Sync: sim.ByIdleness{{Takes: one(1)}}, CommitBytes: 1000,
		Log: sim.Log{Row: 100, Step: 1000, Below: 500, Grown: one(10), Sync: sim.ByIdleness{{Takes: one(100)}}},
	}
}

func TestALogIsMadeLongerAheadWhileSyncsCarryLittle(t *testing.T) {
	const n = 100
	conf := config(10)
	conf.Costs = logged()
	slow := 0
	conf.Started = func(s sim.Start) {
		if s.Disk == 10*time.Millisecond {
			slow++
		} else if s.Disk != time.Millisecond {
			t.Errorf("a start waited for the disk for %v", s.Disk)
		}
	}
	r := run(t, conf, apart(n, 150))
	const inLog = n * (150 + 2*100)
	if want := float64(2*n*1000 + inLog); r.Written != want {
		t.Errorf("%.0f bytes were written, want %.0f: those of the commits, and the log once more", r.Written, want)
	}
	if slow == 0 || slow > inLog/1000 {
		t.Errorf("%d starts were slow, and the log was made longer %d times", slow, inLog/1000)
	}
}

func TestALogIsNotMadeLongerAheadWhileSyncsCarryMuch(t *testing.T) {
	const n = 40
	conf := config(10)
	conf.Costs = logged()
	conf.Costs.SyncKiB = 2 * time.Millisecond
	conf.Costs.Log.Row = 0
	count := map[time.Duration]int{}
	conf.Started = func(s sim.Start) { count[s.Disk]++ }
	r := run(t, conf, apart(n, 10<<10))
	if got := count[120*time.Millisecond]; got < n-2 {
		t.Errorf("%d of %d starts waited as long as for a log that grows with each sync: %v", got, n, count)
	}
	if most := float64(2*n*1000 + 11<<10); r.Written > most {
		t.Errorf("%.0f bytes were written, want at most %.0f", r.Written, most)
	}
}

// TestRanksAreThoseOfTheNextRangeThatHasSome: the disk rests for long before each sync, and
// of that only the distribution is known.
func TestRanksAreThoseOfTheNextRangeThatHasSome(t *testing.T) {
	ms := time.Millisecond
	conf := config(10)
	conf.Costs.Sync = sim.ByIdleness{
		{Takes: sim.Quantiles{ms, ms}, Ranks: []uint16{0}},
		{After: ms, Takes: sim.Quantiles{2 * ms, 3 * ms}, Ranks: []uint16{sim.MaxRank}},
		{After: 10 * ms, Takes: sim.Quantiles{4 * ms, 5 * ms}},
	}
	conf.Started = func(s sim.Start) {
		if s.Disk != 5*ms {
			t.Errorf("a start waited for the disk for %v", s.Disk)
		}
	}
	run(t, conf, apart(10, 0))
}

func TestAWriterServesWhatComesWhileItWakesUp(t *testing.T) {
	commits := func(gather time.Duration) int64 {
		conf := config(10)
		conf.Costs = sim.Costs{Gather: gather, Sync: sim.ByIdleness{{Takes: sim.Quantiles{time.Millisecond}}}}
		n := 0
		return run(t, conf, arrivals(100, 1, func(_ *rand.Rand, a *sim.Arrival) {
			a.Wait = 300 * time.Millisecond
			if n++; n%2 == 1 {
				a.At += time.Second
			} else {
				a.At += 5 * time.Microsecond
			}
		})).Commits
	}
	if at, after := commits(0), commits(10*time.Microsecond); at != 200 || after != 100 {
		t.Errorf("50 pairs make %d commits if writers are there at once and %d if they take longer than the second, want 200 and 100", at, after)
	}
}

func TestAPayloadThatIsPartOfItsRowIsWrittenAgain(t *testing.T) {
	written := func(size int) float64 {
		conf := config(10)
		conf.Costs = sim.Costs{Amplify: 1, Inline: 512}
		return run(t, conf, apart(10, size)).Written
	}
	if few, many := written(512), written(513); few != 2*10*512 || many != 10*513 {
		t.Errorf("%.0f and %.0f bytes are written of ten payloads of 512 and 513, want %d and %d", few, many, 2*10*512, 10*513)
	}
}

func TestACallerThatWaitsForASyncGoesOnByHowIdleTheDiskWas(t *testing.T) {
	conf := config(10)
	conf.Costs = sim.Costs{Woken: sim.ByIdleness{{Takes: sim.Quantiles{0}}, {After: 100 * time.Millisecond, Takes: sim.Quantiles{time.Minute}}}}
	conf.Costs.Sync = sim.ByIdleness{{Takes: sim.Quantiles{time.Millisecond}}}
	var took time.Duration
	conf.Started = func(s sim.Start) { took = max(took, s.At-s.Arrival.At) }
	run(t, conf, apart(3, 0))
	if took < time.Minute {
		t.Errorf("after a second of rest a start took %v at most", took)
	}
}

func TestSyncsTakeAsLongAsTheySayWhileFilesAreSorted(t *testing.T) {
	const ms = time.Millisecond
	for _, sorting := range []sim.Quantiles{nil, {50 * ms}} {
		conf := config(10)
		conf.Costs = sim.Costs{
			Sync: sim.ByIdleness{{Takes: sim.Quantiles{ms}}}, Sorting: sorting, Log: sim.Log{Row: 100},
			Background: 10 * ms, BackgroundEvery: 900, // every other time it is an insert that makes the log so long
		}
		slow := 0
		conf.Started = func(s sim.Start) {
			switch s.Disk {
			case 50 * ms:
				slow++
			case ms:
			default:
				t.Errorf("a start waited for the disk for %v", s.Disk)
			}
		}
		run(t, conf, apart(90, 0))
		if want := 10 * len(sorting); slow != want {
			t.Errorf("%d starts were slow, want %d", slow, want)
		}
	}
}

func TestADiskThatCannotBeIsRefused(t *testing.T) {
	falling := sim.Quantiles{2, 1}
	for name, spoil := range map[string]func(*sim.Costs){
		"a negative row":    func(c *sim.Costs) { c.Log.Row = -1 },
		"a step of NaN":     func(c *sim.Costs) { c.Log.Step = math.NaN() },
		"growth that falls": func(c *sim.Costs) { c.Log.Grown = falling },
		"negative sorting":  func(c *sim.Costs) { c.Sorting = sim.Quantiles{-1} },
		"syncs that fall":   func(c *sim.Costs) { c.Log.Sync = sim.ByIdleness{{Takes: falling}} },
		"woken that falls":  func(c *sim.Costs) { c.Woken = sim.ByIdleness{{Takes: falling}} },
		"a rank too great":  func(c *sim.Costs) { c.Log.Sync[0].Ranks = []uint16{sim.MaxRank + 1} },
		"a negative gather": func(c *sim.Costs) { c.Gather = -1 },
		"a negative inline": func(c *sim.Costs) { c.Inline = -1 },
	} {
		conf := config(1)
		conf.Costs = logged()
		spoil(&conf.Costs)
		if _, err := sim.Run(conf, apart(1, 0)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
