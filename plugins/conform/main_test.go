package conform_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/taskengine/taskengine/plugins/handler"
	"github.com/taskengine/taskengine/steps"
	"github.com/taskengine/taskengine/task"
)

// The test binary plays the programs that are examined: actAs names the part.
const (
	actAs      = "CONFORM_TEST_ACT_AS"
	conformant = "conformance program"
	workerPart = "worker: "
)

func TestMain(m *testing.M) {
	switch part := os.Getenv(actAs); part {
	case "":
		goleak.VerifyTestMain(m)
	case conformant:
		handler.Program{Handlers: conformance(), Version: "conformance"}.Serve()
	default:
		if fault, isWorker := strings.CutPrefix(part, workerPart); isWorker {
			(&faultyWorker{fault: fault}).main()
		}
		faulty{fault: part}.main()
	}
}

// conformance are the types of a conformance program, in Go.
func conformance() handler.Handlers {
	return handler.Handlers{
		"echo": handler.Func(func(_ context.Context, t *task.Task) ([]byte, error) { return t.Payload, nil }),
		"json": handler.JSON(func(_ context.Context, _ *task.Task, in struct{ A, B int }) (map[string]int, error) {
			return map[string]int{"sum": in.A + in.B}, nil
		}),
		"describe": handler.Func(describe),
		"error":    handler.Func(failAsAsked),
		"throw":    handler.Func(func(_ context.Context, t *task.Task) ([]byte, error) { panic(string(t.Payload)) }),
		"doubt": handler.Func(func(_ context.Context, t *task.Task) ([]byte, error) {
			return nil, task.InDoubt(errors.New(string(t.Payload)))
		}),
		"unencodable": handler.Func(func(ctx context.Context, t *task.Task) ([]byte, error) {
			nan := handler.JSON(func(context.Context, *task.Task, any) (float64, error) { return math.NaN(), nil })
			return nan.Handle(ctx, &task.Task{Type: t.Type, Payload: []byte("null")})
		}),
		"snooze": handler.JSON(func(_ context.Context, _ *task.Task, in struct {
			DelayMS int `json:"delay_ms"`
		},
		) (any, error) {
			return nil, task.Snooze(time.Duration(in.DelayMS) * time.Millisecond)
		}),
		"again": handler.Func(func(_ context.Context, t *task.Task) ([]byte, error) {
			var in struct {
				AtMS   int64 `json:"at_ms"`
				Result string
			}
			if err := json.Unmarshal(t.Payload, &in); err != nil {
				return nil, err
			}
			return []byte(in.Result), task.Again(time.UnixMilli(in.AtMS))
		}),
		"rerun": handler.Func(runAgainAsAsked),
		"ended": handler.Func(func(context.Context, *task.Task) ([]byte, error) { return nil, task.Ended() }),
		"wait": handler.Func(func(ctx context.Context, _ *task.Task) ([]byte, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}),
		"hang": handler.Func(func(context.Context, *task.Task) ([]byte, error) { select {} }),
		"log":  handler.Func(logAsAsked),
		"print": handler.Func(func(_ context.Context, t *task.Task) ([]byte, error) {
			fmt.Println(string(t.Payload))
			fmt.Fprintln(os.Stderr, string(t.Payload))
			return nil, nil
		}),
		"progress": handler.JSON(func(ctx context.Context, _ *task.Task, in struct {
			Done, Total uint64
			Message     string
		},
		) (any, error) {
			task.ReportProgress(ctx, in.Done, in.Total, in.Message)
			return nil, nil
		}),
		"checkpoint": handler.Func(func(ctx context.Context, t *task.Task) ([]byte, error) {
			_ = task.SaveCheckpoint(ctx, t.Payload) // some hosts keep none
			return nil, errors.New("kept")
		}),
		"keep": handler.Func(func(ctx context.Context, t *task.Task) ([]byte, error) {
			return []byte("stored"), task.SaveCheckpoint(ctx, t.Payload)
		}),
		"await":     handler.Func(awaitAsAsked),
		"flow":      steps.Handler(steps.Options{Version: 1}, flow),
		"children":  handler.Func(spawnAsAsked),
		"family":    handler.Func(familyAsAsked),
		"signals":   handler.Func(signalAsAsked),
		"check":     handler.Func(checkAsAsked),
		"documents": handler.Func(writeAsAsked),
		"after":     handler.Func(spawnAfterAsAsked),
		"fan":       steps.Handler(steps.Options{Version: 1}, fan),
		"batch": handler.Batch(10, 100*time.Millisecond, func(_ context.Context, tasks []*task.Task) ([]handler.Outcome, error) {
			outcomes := make([]handler.Outcome, len(tasks))
			for i, t := range tasks {
				if string(t.Payload) == "fail" {
					outcomes[i].Err = errors.New("asked to")
				} else {
					outcomes[i].Result = strconv.AppendInt(nil, int64(len(tasks)), 10)
				}
			}
			return outcomes, nil
		}),
		"big": handler.Func(func(_ context.Context, t *task.Task) ([]byte, error) {
			n, err := strconv.Atoi(string(t.Payload))
			return []byte(strings.Repeat("x", n)), err
		}),
		"exit": handler.Func(func(_ context.Context, t *task.Task) ([]byte, error) {
			code, err := strconv.Atoi(string(t.Payload))
			if err == nil {
				os.Exit(code)
			}
			return nil, err
		}),
	}
}

func describe(ctx context.Context, t *task.Task) ([]byte, error) {
	var left int64
	if at, ok := ctx.Deadline(); ok {
		left = time.Until(at).Microseconds()
	}
	return json.Marshal(map[string]any{
		"id": t.ID.String(), "version": t.Version, "type": t.Type, "attempt": t.Attempt, "crashes": t.Crashes,
		"priority": t.Priority, "key": t.Key, "ordering_key": t.OrderingKey, "headers": t.Headers,
		"payload": t.Payload, "time_left_us": left, "checkpoint": base64.StdEncoding.EncodeToString(t.Checkpoint()),
	})
}

func failAsAsked(_ context.Context, t *task.Task) ([]byte, error) {
	var in struct {
		Message, Class string
		Permanent      bool
		RetryDelayMS   *int `json:"retry_delay_ms"`
	}
	if err := json.Unmarshal(t.Payload, &in); err != nil {
		return nil, err
	}
	err := task.WithClass(in.Class, errors.New(in.Message))
	if in.Permanent {
		err = task.Permanent(err)
	}
	if in.RetryDelayMS != nil {
		err = task.RetryIn(time.Duration(*in.RetryDelayMS)*time.Millisecond, err)
	}
	return nil, err
}

func runAgainAsAsked(_ context.Context, t *task.Task) ([]byte, error) {
	var in struct {
		AtMS                int64 `json:"at_ms"`
		Result              string
		Payload, Checkpoint *string
	}
	if err := json.Unmarshal(t.Payload, &in); err != nil {
		return nil, err
	}
	var options []task.AgainOption
	if in.Payload != nil {
		options = append(options, task.WithPayload([]byte(*in.Payload)))
	}
	if in.Checkpoint != nil {
		options = append(options, task.WithCheckpoint([]byte(*in.Checkpoint)))
	}
	return []byte(in.Result), task.Again(time.UnixMilli(in.AtMS), options...)
}

// awoken is how a conformance program reports the end of the wait of its task.
func awoken(w task.Wake) map[string]any {
	out := map[string]any{"by": w.By.String()}
	if w.By == task.BySignal {
		out["id"], out["name"], out["data"] = w.Signal.ID.String(), w.Signal.Name, w.Signal.Data
	}
	return out
}

func awaitAsAsked(_ context.Context, t *task.Task) ([]byte, error) {
	if w := t.Woken(); w.By != task.NotWoken {
		return json.Marshal(awoken(w))
	}
	var in struct {
		Names      []string
		TimeoutMS  int `json:"timeout_ms"`
		Result     string
		Checkpoint *string
	}
	if err := json.Unmarshal(t.Payload, &in); err != nil {
		return nil, err
	}
	var until time.Time
	if in.TimeoutMS > 0 {
		until = time.Now().Add(time.Duration(in.TimeoutMS) * time.Millisecond)
	}
	var options []task.AgainOption
	if in.Checkpoint != nil {
		options = append(options, task.WithCheckpoint([]byte(*in.Checkpoint)))
	}
	return []byte(in.Result), task.WaitFor(in.Names, until, options...)
}

func flow(ctx context.Context, f *steps.Flow) ([]byte, error) {
	process := func(name string) (string, error) {
		return steps.Do(ctx, f, name, func(context.Context) (string, error) { return strconv.Itoa(os.Getpid()), nil })
	}
	began, err := process("begin")
	if err != nil {
		return nil, err
	}
	w, err := f.WaitFor(ctx, time.Hour, "packed")
	if err != nil {
		return nil, err
	}
	ended, err := process("end")
	if err != nil {
		return nil, err
	}
	out := awoken(w)
	out["began"], out["ended"] = began, ended
	return json.Marshal(out)
}

func logAsAsked(ctx context.Context, t *task.Task) ([]byte, error) {
	var in struct {
		Level, Message string
		Fields         map[string]string
	}
	if err := json.Unmarshal(t.Payload, &in); err != nil {
		return nil, err
	}
	var fields []any
	for k, v := range in.Fields {
		fields = append(fields, k, v)
	}
	log := task.Logger(ctx)
	switch in.Level {
	case "debug":
		log.Debug(in.Message, fields...)
	case "info":
		log.Info(in.Message, fields...)
	case "warn":
		log.Warn(in.Message, fields...)
	case "error":
		log.Error(in.Message, fields...)
	}
	return nil, nil
}

func spawnAsAsked(ctx context.Context, t *task.Task) ([]byte, error) {
	var in struct{ Type, Key, Payload string }
	if err := json.Unmarshal(t.Payload, &in); err != nil {
		return nil, err
	}
	err := handler.Spawn(ctx, handler.Child{Type: in.Type, Key: in.Key, Payload: []byte(in.Payload)})
	return []byte("spawned"), err
}
