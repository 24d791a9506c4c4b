package objective

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestObjectivesAreReadAndWritten(t *testing.T) {
	for text, want := range map[string]Objective{
		"p99 start < 50ms":  {0.99, "start", 50 * time.Millisecond},
		"p99.99 end < 1m0s": {0.9999, "end", time.Minute},
	} {
		got, err := Parse(text, time.ParseDuration, "start", "end")
		if err != nil || got.Latency != want.Latency || math.Abs(got.Quantile-want.Quantile) > 1e-9 || got.Below != want.Below {
			t.Errorf("%s is read as %+v, %v", text, got, err)
		}
		if got.String() != text {
			t.Errorf("%s is written as %s", text, got)
		}
	}
}

func TestATextThatIsNoObjectiveIsRefusedWithAnExample(t *testing.T) {
	for text, says := range map[string]string{
		"":                       "write it such as p99 start < 50ms",
		"fast":                   "write it such as p99 start < 50ms",
		"start p99 < 5ms":        "write it such as p99 start < 50ms",
		"p99 start < 5ms please": "write it such as p99 start < 50ms",
		"p100 start < 5ms":       "write it such as p99 start < 50ms",
		"p0 start < 5ms":         "above 0 and below 100",
		"p99 speed < 5ms":        `"speed" is no latency; use one of start, end`,
		"p99 start < 5":          "no duration of more than 0",
		"p99 start < 0s":         "no duration of more than 0",
	} {
		if o, err := Parse(text, time.ParseDuration, "start", "end"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q is %v, %v; want %q", text, o, err, says)
		}
	}
}
