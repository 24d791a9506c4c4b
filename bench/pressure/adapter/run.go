package adapter

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/bench/result"
)

// Queue is a queue that is measured.
type Queue interface {
	// Insert returns when the jobs are durable, or with an error if they are not or if that is unknown.
	Insert(ctx context.Context, payloads [][]byte) error
	// Work starts to call handle for each job. Close ends it.
	Work(ctx context.Context, handle func(payload []byte)) error
	// Counts counts the jobs of all processes.
	Counts(ctx context.Context) (Counts, error)
	Close() error
}

// Counts are numbers of jobs.
type Counts struct {
	Ready int64 // may start, and no worker has them
	Open  int64 // have not ended
	Ended int64 // as they should
}

// window is that of the percentiles of the comparison.
const window = 30 * time.Second

// counting is the least time between two counts of jobs, which cost the queue something.
const counting = 5 * time.Second

// process is one run of an adapter.
type process struct {
	Config
	queue   Queue
	system  string
	out     *printer
	load    *load
	started atomic.Int64
	done    atomic.Int64

	inserted, refused atomic.Int64
	target            atomic.Uint64 // jobs a second, of a load that the adapter paces

	counts atomic.Pointer[Counts] // the last

	mu      sync.Mutex
	starts  *result.Histogram   // guarded by mu: since the last sample
	windows []*result.Histogram // used by the sampler alone: the last samples, oldest first
}

// Run runs an adapter until ctx ends, or with Intervals until in ends. It closes the queue.
func Run(ctx context.Context, c Config, d Descriptor, q Queue, in io.Reader, out io.Writer) error {
	p := &process{Config: c, queue: q, system: d.System, out: &printer{out: out}, load: newLoad(c.BatchMax), starts: result.NewHistogram()}
	d.Kind, d.StartedAt, d.Instance = "descriptor", time.Now().UTC(), c.Instance
	p.out.print(d)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var working sync.WaitGroup
	if c.Workers > 0 {
		if err := q.Work(ctx, p.handle); err != nil {
			return errors.Join(err, q.Close())
		}
	}
	working.Go(func() { p.sampleUntil(ctx) })
	if c.Instance == 0 {
		working.Go(func() { p.countUntil(ctx) })
		for range inserters {
			working.Go(func() { p.insertUntil(ctx) })
		}
	}
	if c.Tokens || c.Intervals {
		go func() { // reads until the other side closes it, or until the process ends
			p.load.follow(in)
			if c.Intervals {
				cancel()
			}
		}()
	}
	if c.Instance == 0 && !c.Tokens {
		working.Go(func() { p.load.pace(ctx, c, &p.target) })
	}
	<-ctx.Done()
	p.load.close()
	working.Wait()
	return p.end()
}

// end prints the last interval and the counts, and closes the queue.
func (p *process) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var e End
	if p.Instance == 0 && p.Intervals {
		n, err := p.queue.Counts(ctx)
		e = End{Open: n.Open, Ended: n.Ended}
		if err != nil {
			e.Error = err.Error()
		}
	}
	err := p.queue.Close()
	if p.Intervals {
		p.sample(time.Now(), nil)
		e.Kind = "end"
		p.out.print(e)
	}
	return err
}

// handle is the work of a job.
func (p *process) handle(payload []byte) {
	if at, ok := arrivedAt(payload); ok {
		took := time.Since(at)
		p.mu.Lock()
		p.starts.Record(took)
		p.mu.Unlock()
	}
	p.started.Add(1)
	if p.Work > 0 {
		time.Sleep(p.Work)
	}
	p.done.Add(1)
}

// insertUntil inserts arrivals until the load is closed.
func (p *process) insertUntil(ctx context.Context) {
	for {
		a, ok := p.load.take()
		if !ok {
			return
		}
		payloads := make([][]byte, a.n)
		for i := range payloads {
			payloads[i] = payloadOf(a.at, p.Payload)
		}
		if err := p.queue.Insert(ctx, payloads); err != nil {
			if ctx.Err() == nil {
				p.refused.Add(int64(a.n))
			}
			continue
		}
		p.inserted.Add(int64(a.n))
	}
}

// countUntil counts the jobs now and then. A count that fails leaves the last one.
func (p *process) countUntil(ctx context.Context) {
	tick := time.NewTicker(max(p.Every, counting))
	defer tick.Stop()
	for {
		one, cancel := context.WithTimeout(ctx, counting)
		if n, err := p.queue.Counts(one); err == nil {
			p.counts.Store(&n)
		}
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// totals are the counters at one sample.
type totals struct {
	at                               time.Time
	inserted, refused, started, done int64
}

// sampleUntil prints samples at whole multiples of the time between them, by the clock.
func (p *process) sampleUntil(ctx context.Context) {
	var last totals
	last.at = time.Now()
	for {
		next := last.at.Truncate(p.Every).Add(p.Every)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(next)):
		}
		last = p.sample(next, &last)
	}
}

// sample prints the figures since the last sample, and returns the totals. Without a last one it prints the interval alone,
// of everything that no sample has.
func (p *process) sample(at time.Time, last *totals) totals {
	p.mu.Lock()
	starts := p.starts
	p.starts = result.NewHistogram()
	p.mu.Unlock()
	now := totals{at, p.inserted.Swap(0), p.refused.Swap(0), p.started.Swap(0), p.done.Swap(0)}
	if p.Intervals {
		i := Interval{Kind: "interval", T: at.UTC(), Inserted: now.inserted, Refused: now.refused, Started: now.started, Open: -1}
		if n := p.counts.Load(); n != nil {
			i.Open = n.Open
		}
		if starts.Count() > 0 {
			i.Start = starts
		}
		p.out.print(i)
	}
	if last != nil {
		p.printSamples(at, now, at.Sub(last.at).Seconds(), starts)
	}
	return now
}

// printSamples prints the metrics of the comparison.
func (p *process) printSamples(at time.Time, now totals, seconds float64, starts *result.Histogram) {
	p.windows = append(p.windows, starts)
	if extra := len(p.windows) - int(max(1, window/p.Every)); extra > 0 {
		p.windows = p.windows[extra:]
	}
	all := result.NewHistogram()
	for _, h := range p.windows {
		all.Merge(h)
	}
	ms := func(q float64) float64 { return float64(all.Quantile(q)) / float64(time.Millisecond) }
	put := func(metric string, value float64, window time.Duration) {
		p.out.print(sample{
			T: at.UTC().Format("2006-01-02T15:04:05.000Z"), System: p.system, Kind: "adapter", SubjectKind: "adapter",
			Metric: metric, Value: value, Window: window.Seconds(), Instance: p.Instance,
		})
	}
	put("claim_p50_ms", ms(0.5), window)
	put("claim_p95_ms", ms(0.95), window)
	put("claim_p99_ms", ms(0.99), window)
	seconds = max(seconds, 0.001)
	put("enqueue_rate", float64(now.inserted)/seconds, p.Every)
	put("completion_rate", float64(now.done)/seconds, p.Every)
	if p.Instance > 0 {
		return
	}
	if n := p.counts.Load(); n != nil {
		put("queue_depth", float64(n.Ready), 0)
		put("total_backlog", float64(n.Open), 0)
	}
	if !p.Tokens {
		put("producer_target_rate", float64(p.target.Load()), 0)
	}
}
