package bench

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/taskengine/taskengine/internal/units"
)

// arrival is a task to submit, and its time since the start of the load including the warm-up.
type arrival struct {
	at time.Duration
	draw
}

// schedule yields arrivals in the order of their times. The same scenario, rate and seed always yield
// the same arrivals. It is used by one goroutine.
type schedule struct {
	next  func() (arrival, bool)
	trace []arrival // all arrivals of a replay; nil for other loads
}

// newSchedule returns the arrivals of an open load at a rate, if its shape has one.
func newSchedule(s *Scenario, rate float64) (*schedule, error) {
	end := s.WarmUp + s.Duration
	deal := newDealer(s)
	if s.Load.Shape == Replay {
		trace, err := readTrace(s, deal)
		if err != nil {
			return nil, err
		}
		return replay(trace), nil
	}
	at := s.times(rate)
	return &schedule{next: func() (arrival, bool) {
		t := at()
		if t >= end {
			return arrival{}, false
		}
		return arrival{t, deal.next()}, true
	}}, nil
}

// times returns an endless iterator over the times of an open load without a trace.
func (s *Scenario) times(rate float64) func() time.Duration {
	i := int64(-1)
	switch s.Load.Shape {
	case Poisson:
		chance := rand.New(rand.NewPCG(s.Load.Seed, 1))
		now := 0.0
		return func() time.Duration {
			now += chance.ExpFloat64() / rate
			return time.Duration(now * float64(time.Second))
		}
	case Bursts:
		return func() time.Duration {
			i++
			return time.Duration(i/int64(s.Load.Burst)) * s.Load.Every
		}
	default:
		return func() time.Duration {
			i++
			return time.Duration(float64(i) / rate * float64(time.Second))
		}
	}
}

func replay(trace []arrival) *schedule {
	rest := trace
	return &schedule{trace: trace, next: func() (arrival, bool) {
		if len(rest) == 0 {
			return arrival{}, false
		}
		a := rest[0]
		rest = rest[1:]
		return a, true
	}}
}

// offered returns the intended rate of a load in tasks per second; 0 is a closed loop.
func (s *Scenario) offered(rate float64) float64 {
	if s.Load.Shape == Bursts {
		return float64(s.Load.Burst) / s.Load.Every.Seconds()
	}
	return rate
}

// line is one task of a trace.
type line struct {
	Offset string `json:"offset"` // a duration since the start
	Type   string `json:"type"`   // the name of one of the flows of the scenario
	Key    string `json:"key"`    // of the task, or ""
	Size   int    `json:"size"`   // of the payload, in bytes
}

// readTrace reads the trace of a scenario: JSON lines, or CSV with a header if the file has that
// extension.
func readTrace(s *Scenario, deal *dealer) ([]arrival, error) {
	if s.files == nil {
		return nil, errors.New("a scenario with a trace has to be read from a file")
	}
	f, err := s.files.Open(s.Load.Trace)
	if errors.Is(err, fs.ErrInvalid) {
		return nil, fmt.Errorf("read the trace: %s has to be beside the scenario or below", s.Load.Trace)
	}
	if err != nil {
		return nil, fmt.Errorf("read the trace: %w", err)
	}
	defer f.Close()
	read := jsonLines
	if path.Ext(s.Load.Trace) == ".csv" {
		read = csvLines
	}
	keys := make(map[string]int32)
	var trace []arrival
	err = read(f, func(l line) error {
		at, err := units.ParseDuration(l.Offset)
		if err != nil {
			return err
		}
		if at > maxTime {
			return fmt.Errorf("%s is too long; write at most %v", l.Offset, maxTime)
		}
		flow := slices.IndexFunc(s.Tasks, func(f Flow) bool { return f.Name == l.Type })
		if flow < 0 {
			return fmt.Errorf("the scenario has no tasks named %.40q", l.Type)
		}
		if l.Size < 0 || l.Size > maxPayload {
			return fmt.Errorf("a payload cannot have %d bytes, but 0 to %d", l.Size, maxPayload)
		}
		d := deal.of(flow)
		d.size, d.key = int32(l.Size), -1
		if l.Key != "" {
			number, known := keys[l.Key]
			if !known {
				number = int32(len(keys))
				keys[l.Key] = number
			}
			d.key = number
		}
		trace = append(trace, arrival{at, d})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the trace %s: %w", s.Load.Trace, err)
	}
	if len(trace) == 0 {
		return nil, fmt.Errorf("read the trace %s: there is no task in it", s.Load.Trace)
	}
	slices.SortStableFunc(trace, func(a, b arrival) int { return int(a.at - b.at) })
	for i := range s.Tasks {
		s.Tasks[i].Keys = max(s.Tasks[i].Keys, len(keys))
	}
	return trace, nil
}

func jsonLines(in io.Reader, take func(line) error) error {
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if err := take(l); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return lines.Err()
}

func csvLines(in io.Reader, take func(line) error) error {
	rows := csv.NewReader(in)
	head, err := rows.Read()
	if err != nil || !slices.Equal(head, []string{"offset", "type", "key", "size"}) {
		return errors.New("line 1: the head has to be offset,type,key,size")
	}
	for n := 2; ; n++ {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		size, err := strconv.Atoi(row[3])
		if err != nil {
			return fmt.Errorf("line %d: %q is no number of bytes", n, row[3])
		}
		if err := take(line{row[0], row[1], row[2], size}); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
}
