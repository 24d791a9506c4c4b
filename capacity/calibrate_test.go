package capacity_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/taskengine/taskengine/capacity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMeasuringEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := capacity.Calibrate(ctx, capacity.Options{
		Store: "memory", Dir: t.TempDir(), Rounds: 1, Scale: 0.02, Progress: func(string, int, int) { cancel() },
	})
	if err == nil {
		t.Error("it went on")
	}
}

func TestNonsenseIsNotMeasured(t *testing.T) {
	if _, err := capacity.Calibrate(t.Context(), capacity.Options{Store: "memory"}); err == nil {
		t.Error("no rounds are accepted")
	}
	if _, err := capacity.Calibrate(t.Context(), capacity.Options{Store: "paper", Dir: t.TempDir(), Rounds: 1, Scale: 1}); err == nil {
		t.Error("any store is accepted")
	}
	if _, _, err := capacity.VerifyModel(t.Context(), capacity.Options{Store: "memory"}, capacity.Checking{Length: time.Second, Repeats: 1}); err == nil {
		t.Error("no scale is accepted")
	}
	if _, err := capacity.Verify(t.Context(), curves(), capacity.Checking{Length: time.Second, Repeats: 1, Only: []string{"none"}}); err == nil {
		t.Error("any load is accepted")
	}
}
