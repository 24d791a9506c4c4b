package adapter_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/bench/pressure/adapter"
)

// memory is a queue in memory, whose jobs start a while after their insert.
type memory struct {
	mu     sync.Mutex
	handle func([]byte)
	ended  int64 // guarded by mu
	work   sync.WaitGroup
}

func (m *memory) Insert(_ context.Context, payloads [][]byte) error {
	for _, p := range payloads {
		m.work.Go(func() {
			time.Sleep(10 * time.Millisecond)
			m.handle(p)
			m.mu.Lock()
			defer m.mu.Unlock()
			m.ended++
		})
	}
	return nil
}

func (m *memory) Work(_ context.Context, handle func([]byte)) error { m.handle = handle; return nil }

func (m *memory) Counts(context.Context) (adapter.Counts, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return adapter.Counts{Ended: m.ended}, nil
}

func (m *memory) Close() error { m.work.Wait(); return nil }

// env returns a function for FromEnv.
func env(values ...string) func(string) string {
	all := map[string]string{}
	for _, v := range values {
		name, value, _ := strings.Cut(v, "=")
		all[name] = value
	}
	return func(name string) string { return all[name] }
}

func TestAnAdapterPrintsTheMetricsOfTheComparison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := adapter.FromEnv(env("PRODUCER_RATE=100", "SAMPLE_EVERY_S=5", "JOB_WORK_MS=1", "WORKER_COUNT=4", "SCENARIO=long_horizon", "PRODUCER_MODE=fixed"))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 21*time.Second)
		defer cancel()
		var out bytes.Buffer
		if err := adapter.Run(ctx, c, adapter.Descriptor{System: "memory"}, new(memory), strings.NewReader(""), &out); err != nil {
			t.Fatal(err)
		}
		last := map[string]float64{}
		s := bufio.NewScanner(&out)
		for i := 0; s.Scan(); i++ {
			var line struct {
				Kind, System, Metric string
				Value                float64
			}
			if err := json.Unmarshal(s.Bytes(), &line); err != nil || line.System != "memory" || (line.Kind == "descriptor") != (i == 0) {
				t.Fatalf("line %d is %s, %v", i, s.Text(), err)
			}
			last[line.Metric] = line.Value
		}
		for name, want := range map[string]float64{"claim_p50_ms": 10, "claim_p99_ms": 10, "enqueue_rate": 100, "completion_rate": 100, "producer_target_rate": 100} {
			if got := last[name]; got < 0.95*want || got > 1.05*want {
				t.Errorf("%s is %v, want about %v", name, got, want)
			}
		}
		if _, there := last["queue_depth"]; !there {
			t.Error("the depth of the queue is missing")
		}
	})
}

func TestTokensAreJobsAndIntervalsCountThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := adapter.FromEnv(env("PRODUCER_PACING=harness", "PRESSURE_INTERVALS=1", "SAMPLE_EVERY_S=1", "PRODUCER_BATCH_MAX=1"))
		if err != nil {
			t.Fatal(err)
		}
		in, tokens := io.Pipe()
		go func() {
			for _, line := range []string{adapter.Token(7), "nonsense\n", adapter.Token(1000)} {
				_, _ = io.WriteString(tokens, line)
				time.Sleep(2 * time.Second)
			}
			_ = tokens.Close() // ends the adapter
		}()
		var out bytes.Buffer
		if err := adapter.Run(t.Context(), c, adapter.Descriptor{System: "memory"}, new(memory), in, &out); err != nil {
			t.Fatal(err)
		}
		var inserted, started, recorded int64
		var end *adapter.End
		for line := range bytes.Lines(out.Bytes()) {
			v, err := adapter.Parse(line)
			if err != nil {
				t.Fatal(err)
			}
			switch v := v.(type) {
			case *adapter.Interval:
				inserted, started = inserted+v.Inserted, started+v.Started
				if v.Start != nil {
					recorded += v.Start.Count()
				}
			case *adapter.End:
				end = v
			}
		}
		if inserted != 1007 || started != 1007 || recorded != 1007 || end == nil || end.Ended != 1007 {
			t.Errorf("%d are inserted, %d started, %d recorded; the end is %+v", inserted, started, recorded, end)
		}
	})
}

func TestSettingsThatAreNotSupportedAreRefused(t *testing.T) {
	_, err := adapter.FromEnv(env("PRODUCER_MODE=depth-target", "SCENARIO=chaos", "WORKER_COUNT=many"))
	for _, want := range []string{"only fixed", "only long_horizon", `WORKER_COUNT="many": write a whole number of at least 0`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, without %q", err, want)
		}
	}
}
