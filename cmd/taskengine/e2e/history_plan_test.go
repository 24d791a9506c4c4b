package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// plan has the faults of a cluster of three nodes and their times: each of its lists is by time. The lists
// do not wait for each other.
type plan struct {
	faults  []step[fault]
	bursts  []step[[]*taskenginev1.NewTask]
	changes []step[*taskenginev1.SetLimitRequest]
}

// step is something that is done at a time after the beginning.
type step[T any] struct {
	at time.Duration
	do T
}

// fault is the begin of something that harms a node or a server, or its end.
type fault struct {
	kind string // one of faultKinds or faultsElsewhere
	node int
	ends bool
}

// faultKinds are the faults of a node, and the crash of the database.
var faultKinds = []string{"kill", "freeze", "freeze of the node alone", "cut", "crash of the database"}

// cutOff cuts a node off the coordinator, if that is not the database.
const cutOff = "cut off the coordinator"

// faultsElsewhere are the additional faults if the coordinator is not the database. These are most of the faults.
var faultsElsewhere = []string{cutOff, cutOff, "crash of the coordinator", "crash of the coordinator"}

const (
	planNodes   = 3
	planTime    = 6 * time.Second // after that every node works again
	planLease   = 2 * time.Second
	planTotal   = 6 // maxima of the configuration
	planPartner = 2
	planRate    = 25 // in a second
	planBurst   = 5
)

// newPlan draws a plan with faults of some kinds.
func newPlan(seed uint64, kinds []string) (p plan) {
	rng := rand.New(rand.NewPCG(seed, 1))
	p.drawFaults(rng, kinds)
	for range 7 {
		p.bursts = append(p.bursts, step[[]*taskenginev1.NewTask]{within(rng, 0, planTime), drawTasks(rng, 4)})
	}
	p.bursts = append(p.bursts, step[[]*taskenginev1.NewTask]{0, drawTasks(rng, 20)})
	p.drawChanges(rng)
	sortSteps(p.faults)
	sortSteps(p.bursts)
	sortSteps(p.changes)
	return p
}

func sortSteps[T any](steps []step[T]) {
	slices.SortStableFunc(steps, func(a, b step[T]) int { return cmp.Compare(a.at, b.at) })
}

// within returns a time between two.
func within(rng *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(rng.Int64N(int64(to-from)))
}

// drawFaults adds some faults, at most one at a time for each node and for each server.
func (p *plan) drawFaults(rng *rand.Rand, kinds []string) {
	free := make(map[string]time.Duration) // by the node, or the server
	for range 3 + rng.IntN(4) {
		f := fault{kind: kinds[rng.IntN(len(kinds))], node: rng.IntN(planNodes)}
		at, lasts := within(rng, 300*time.Millisecond, planTime-time.Second), within(rng, 100*time.Millisecond, planLease)
		if rng.IntN(3) > 0 {
			lasts += planLease
		}
		place := fmt.Sprint(f.node)
		if strings.HasPrefix(f.kind, "crash") {
			place = f.kind
		}
		if at = max(at, free[place]); at > planTime {
			continue
		}
		free[place] = at + lasts + planLease/4
		p.faults = append(p.faults, step[fault]{at, f})
		f.ends = true
		p.faults = append(p.faults, step[fault]{at + lasts, f})
	}
}

// drawTasks returns at least so many tasks of a few partners. Most are short, and some run longer than a lease.
func drawTasks(rng *rand.Rand, least int) (all []*taskenginev1.NewTask) {
	for range least + rng.IntN(7) {
		partner, millis := fmt.Sprint("p", rng.IntN(4)), 10+rng.IntN(250)
		if rng.IntN(7) == 0 {
			millis = 2000 + rng.IntN(4500)
		}
		payload, err := json.Marshal(map[string]any{"partner": partner, "millis": millis})
		if err != nil {
			panic(err)
		}
		all = append(all, &taskenginev1.NewTask{
			Id:   fmt.Sprintf("0190a6f0-%04x-7%03x-8%03x-%012x", rng.IntN(1<<16), rng.IntN(1<<12), rng.IntN(1<<12), rng.Uint64N(1<<48)),
			Type: []string{"pay", "pay", "mail"}[rng.IntN(3)], Input: &taskenginev1.NewTask_Payload{Payload: payload},
			OrderingKey: fmt.Sprint(rng.IntN(256)),
		})
	}
	return all
}

// drawChanges adds changes of limits, and perhaps a pause of all.
func (p *plan) drawChanges(rng *rand.Rand) {
	for range 2 + rng.IntN(4) {
		q := &taskenginev1.SetLimitRequest{}
		most := uint32(1 + rng.IntN(4))
		switch rng.IntN(3) {
		case 0:
			q.Name = "partner"
		case 1:
			q.Name, q.Value = "partner", "p0"
		default:
			q.Name, most = "total", 2*most
		}
		q.Max = &most
		p.changes = append(p.changes, step[*taskenginev1.SetLimitRequest]{within(rng, 0, planTime), q})
	}
	if rng.IntN(3) == 0 {
		at, yes, no := within(rng, 0, planTime-time.Second), true, false
		p.changes = append(p.changes, step[*taskenginev1.SetLimitRequest]{at, &taskenginev1.SetLimitRequest{Name: "total", Paused: &yes}},
			step[*taskenginev1.SetLimitRequest]{at + time.Second, &taskenginev1.SetLimitRequest{Name: "total", Paused: &no}})
	}
}
