//go:build unix

package main

import (
	"sync"
	"time"

	"github.com/taskengine/taskengine/bench/pressure/adapter"
	"github.com/taskengine/taskengine/bench/result"
)

// course collects the figures of one subject, second by second.
type course struct {
	mu      sync.Mutex
	began   time.Time     // guarded by mu: a whole second
	seconds []*second     // guarded by mu
	ends    []adapter.End // guarded by mu
}

// second has the figures of a second as they come.
type second struct {
	result.Second
	starts, bystander *result.Histogram // nil is none
	failed            int64             // queries of the bystander
}

// facts are the figures of a database at one time.
type facts struct{ dead, tables, log int64 }

// begin sets the begin. Processes may have sent figures before.
func (c *course) begin(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began = at
}

// in calls change with the second of a time. Times before the begin count as the first second.
func (c *course) in(at time.Time, change func(*second)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := max(0, int(at.Sub(c.began)/time.Second))
	for len(c.seconds) <= i {
		s := &second{}
		if n := len(c.seconds); n > 0 { // until they are read again
			last := c.seconds[n-1]
			s.Backlog, s.Dead, s.Tables, s.Log = last.Backlog, last.Dead, last.Tables, last.Log
		}
		s.At = time.Duration(len(c.seconds)+1) * time.Second
		c.seconds = append(c.seconds, s)
	}
	change(c.seconds[i])
}

// merged adds a histogram to one that may be nil.
func merged(to, from *result.Histogram) *result.Histogram {
	if from == nil {
		return to
	}
	if to == nil {
		to = result.NewHistogram()
	}
	to.Merge(from)
	return to
}

// interval adds the figures of a process. An interval that ends with a second belongs to it.
func (c *course) interval(i *adapter.Interval) {
	c.in(i.T.Add(-time.Millisecond), func(s *second) {
		s.Inserted += i.Inserted
		s.Refused += i.Refused
		s.Started += i.Started
		s.starts = merged(s.starts, i.Start)
		if i.Open >= 0 {
			s.Backlog = i.Open
		}
	})
}

func (c *course) end(e *adapter.End) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends = append(c.ends, *e)
}

// backlog returns the last count of open jobs, and the number of inserted jobs.
func (c *course) backlog() (open, inserted int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.seconds {
		open = s.Backlog
		inserted += s.Inserted
	}
	return open, inserted
}

// all returns the seconds.
func (c *course) all() []result.Second {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]result.Second, len(c.seconds))
	for i, s := range c.seconds {
		if s.starts != nil {
			s.StartP50, s.StartP99 = s.starts.Quantile(0.5), s.starts.Quantile(0.99)
		}
		if s.bystander != nil {
			s.BystanderP50, s.BystanderP99 = s.bystander.Quantile(0.5), s.bystander.Quantile(0.99)
		}
		out[i] = s.Second
	}
	return out
}

// phase returns the figures of the seconds that end after from and not after to.
func (c *course) phase(name string, from, to time.Duration) result.Phase {
	p := result.Phase{Kind: name, From: from, To: to, Start: result.NewHistogram(), Bystander: result.NewHistogram()}
	c.mu.Lock()
	defer c.mu.Unlock()
	var last, lastSeconds int64
	seconds := int64(0)
	for _, s := range c.seconds {
		if s.At <= from || s.At > to {
			continue
		}
		seconds++
		p.Offered += s.Offered
		p.Inserted += s.Inserted
		p.Refused += s.Refused
		p.Started += s.Started
		p.Failed += s.failed
		merged(p.Start, s.starts)
		merged(p.Bystander, s.bystander)
		p.Backlog = s.Backlog
		p.Dead, p.Tables, p.Log = max(p.Dead, s.Dead), max(p.Tables, s.Tables), max(p.Log, s.Log)
		if to-s.At < (to-from)/4 {
			last += s.Started
			lastSeconds++
		}
	}
	p.Rate, p.Last = float64(p.Started)/float64(max(1, seconds)), float64(last)/float64(max(1, lastSeconds))
	return p
}

// check compares the acknowledged inserts with the jobs that have ended in the store. Counts of seconds in which a process
// was killed may be missing, so there may be more.
func (c *course) check() (check result.Check, again int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var inserted, started int64
	for _, s := range c.seconds {
		inserted += s.Inserted
		started += s.Started
	}
	check.Checked = []string{"as many jobs have ended in the store as inserts were acknowledged, or more", "no job is left"}
	if len(c.ends) == 0 {
		check.Notes = []string{"the process of the load did not end as it was asked to, so nothing was checked"}
		return check, 0
	}
	e := c.ends[len(c.ends)-1]
	if e.Error != "" {
		check.Notes = []string{"the jobs could not be counted: " + e.Error}
		return check, 0
	}
	check.Lost = max(0, inserted-e.Ended-e.Open)
	check.OK = check.Lost == 0 && e.Open == 0
	if e.Open > 0 {
		check.Notes = append(check.Notes, result.Counted(e.Open, "job")+" had not ended when the time for that was over")
	}
	return check, max(0, started-e.Ended)
}
