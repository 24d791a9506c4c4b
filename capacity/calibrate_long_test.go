//go:build !race

package capacity_test

import (
	"os"
	"testing"
	"time"

	"github.com/taskengine/taskengine/capacity"
)

// TestAMachineIsMeasuredAndItsLoadsPredicted shows that the parts work together. It does not check the
// quality of predictions.
func TestAMachineIsMeasuredAndItsLoadsPredicted(t *testing.T) {
	for _, store := range []string{"memory", "bolt"} {
		t.Run(store, func(t *testing.T) {
			dir := t.TempDir()
			runs := 0
			c, err := capacity.Calibrate(t.Context(), capacity.Options{
				Store: store, Dir: dir, Rounds: 1, Scale: 0.01, Progress: func(string, int, int) { runs++ },
			})
			if err != nil {
				t.Fatal(err)
			}
			k := c.Costs
			if runs == 0 || k.Insert+k.Swap+k.Commit <= 0 || len(k.Sync) == 0 || len(c.Fit) == 0 || c.Machine.Cores < 1 {
				t.Errorf("after %d runs the curves are %+v", runs, c)
			}
			if k.Serial != (store == "bolt") {
				t.Errorf("of %s, Serial is %v", store, k.Serial)
			}
			for _, f := range c.Fit {
				if f.Measured.P50 <= 0 || f.Model.P50 <= 0 || f.Model.Commits <= 0 {
					t.Errorf("run %s is %+v", f.Run, f)
				}
			}
			checked, err := capacity.Verify(t.Context(), c, capacity.Checking{
				Dir: dir, Length: 300 * time.Millisecond, Repeats: 1, Only: []string{"b-waiting", "d-limit"},
			})
			if err != nil || len(checked) != 2 {
				t.Fatalf("%d loads were run: %v", len(checked), err)
			}
			for _, x := range checked {
				if x.Measured.P50 <= 0 || x.Predicted.P50 <= 0 || len(x.Errors) < 3 {
					t.Errorf("load %s is %+v", x.Load, x)
				}
			}
			curves, checked, err := capacity.VerifyModel(t.Context(), capacity.Options{Store: store, Dir: dir, Scale: 0.01}, capacity.Checking{
				Dir: dir, Length: 300 * time.Millisecond, Repeats: 2, Only: []string{"b-waiting"},
			})
			if err != nil || len(checked) != 1 || len(checked[0].Runs) != 2 || len(curves.Costs.Sync) == 0 || len(curves.Fit) != 2*len(c.Fit) {
				t.Fatalf("%+v after two rounds, with curves of %d runs: %v", checked, len(curves.Fit), err)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("%d things were left behind, %v", len(left), err)
			}
		})
	}
}
