package bench

import (
	"maps"
	"math/rand/v2"
	"sort"
	"strconv"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/task"
)

// draw is a task to submit: everything but its time and its id.
type draw struct {
	flow int32
	typ  int32   // the number of the type within the flow
	key  int32   // the number of the key; -1 is none
	size int32   // of the payload
	from int32   // the offset of the payload in the noise
	part float64 // 0..1: the time of the task within Flow.Within
}

// dealer draws tasks according to the flows. It is used by one goroutine.
type dealer struct {
	flows  []Flow
	upTo   []float64 // the sums of the shares of the flows up to each
	chance *rand.Rand
	zipf   []*rand.Zipf // by flow; nil is evenly
	drawn  []int        // by flow
}

func newDealer(s *Scenario) *dealer {
	d := &dealer{flows: s.Tasks, chance: rand.New(rand.NewPCG(s.Load.Seed, 2)), drawn: make([]int, len(s.Tasks))}
	sum := 0.0
	for _, f := range s.Tasks {
		sum += f.Share
		d.upTo = append(d.upTo, sum)
		var z *rand.Zipf
		if f.Keys > 0 && f.Zipf > 1 {
			z = rand.NewZipf(d.chance, f.Zipf, 1, uint64(f.Keys-1))
		}
		d.zipf = append(d.zipf, z)
	}
	return d
}

// next draws a task of any flow.
func (d *dealer) next() draw {
	flow := 0
	if n := len(d.flows); n > 1 {
		x := d.chance.Float64() * d.upTo[n-1]
		flow = min(n-1, sort.SearchFloat64s(d.upTo, x))
	}
	return d.of(flow)
}

// of draws a task of one flow.
func (d *dealer) of(flow int) draw {
	f := &d.flows[flow]
	out := draw{flow: int32(flow), key: -1, size: int32(f.Payload), from: int32(d.chance.IntN(noiseStarts)), part: d.chance.Float64()}
	if f.Types > 1 {
		out.typ = int32(d.chance.IntN(f.Types))
	}
	switch {
	case f.Keys == 0:
	case d.zipf[flow] != nil:
		out.key = int32(d.zipf[flow].Uint64())
	default:
		out.key = int32(d.chance.IntN(f.Keys))
	}
	return out
}

// noiseStarts is the number of offsets in the noise where a payload may begin.
const noiseStarts = 1 << 20

// requester makes requests from draws. It may be used by many goroutines.
type requester struct {
	s     *Scenario
	types [][]string // by flow
	noise []byte     // payloads are parts of it: random, so that a store cannot compress them
	heads []map[string]string
	named bool // tasks have their key in the header "key", too
}

func newRequester(s *Scenario) *requester {
	q := &requester{s: s, noise: make([]byte, noiseStarts+maxPayload), named: !s.Ordered || s.limitsKeys()}
	var seed [32]byte
	seed[0] = byte(s.Load.Seed)
	_, _ = rand.NewChaCha8(seed).Read(q.noise) // never fails
	for i := range s.Tasks {
		f := &s.Tasks[i]
		names := make([]string, f.Types)
		for j := range names {
			names[j] = f.typeName(j)
		}
		var head map[string]string
		if f.Tenant != "" {
			head = map[string]string{"tenant": f.Tenant}
		}
		q.types, q.heads = append(q.types, names), append(q.heads, head)
	}
	return q
}

// request returns the request for a task; due is when it is due, or zero.
func (q *requester) request(id task.ID, d draw, due time.Time) engine.Request {
	r := engine.Request{
		ID: id, Type: q.types[d.flow][d.typ], Payload: q.noise[d.from:][:d.size],
		Headers: q.heads[d.flow], At: due,
	}
	if d.key < 0 {
		return r
	}
	key := "k" + strconv.Itoa(int(d.key))
	if q.s.Ordered {
		r.OrderingKey = key
	}
	if q.named {
		r.Headers = map[string]string{"key": key}
		maps.Copy(r.Headers, q.heads[d.flow])
	}
	return r
}
