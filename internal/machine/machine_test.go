package machine_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/machine"
)

func TestCoresOfOthersAreWhatIsNotOurs(t *testing.T) {
	for name, c := range map[string]struct {
		all, own, took time.Duration
		want           float64
	}{
		"half a core":          {3 * time.Second, 2 * time.Second, 2 * time.Second, 0.5},
		"none":                 {2 * time.Second, 2 * time.Second, 2 * time.Second, 0},
		"rounded below":        {time.Second, 2 * time.Second, 2 * time.Second, 0},
		"the system is silent": {0, 2 * time.Second, 2 * time.Second, 0},
		"too short to say":     {time.Second, 0, 100 * time.Millisecond, 0},
	} {
		if got := machine.Others(c.all, c.own, c.took); got != c.want {
			t.Errorf("%s: it is %v, want %v", name, got, c.want)
		}
	}
}

func TestAMachineIsDescribed(t *testing.T) {
	m := machine.Describe(t.TempDir())
	if m.OS != runtime.GOOS || m.Cores < 1 || m.Go == "" {
		t.Errorf("it is %+v", m)
	}
	if runtime.GOOS == "linux" && (m.Kernel == "" || m.Memory == 0 || m.Disk == "" || machine.Busy() == 0) {
		t.Errorf("Linux reports more than %+v", m)
	}
}

func TestANumberIsReadFromItsLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "status")
	if err := os.WriteFile(file, []byte("Name:\tx\nVmRSS:\t  512 kB\nEmpty:\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int64{"VmRSS:": 512, "Name:": 0, "Empty:": 0, "Other:": 0} {
		if got := machine.Number(file, name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	if got := machine.Number(file+".gone", "VmRSS:"); got != 0 {
		t.Errorf("of a file that is not there it is %d", got)
	}
}
