//go:build unix

package zk_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/zk"
	"github.com/taskengine/taskengine/internal/logtest"
	"github.com/taskengine/taskengine/internal/zktest"
)

func TestWhatIsTooLargeForTheServersIsRefusedAndDisturbsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		java    []string
		largest int
	}{
		"as by default":                  {nil, 1 << 20},
		"configured to take less":        {[]string{"-Djute.maxbuffer=100000"}, 100_000},
		"configured to take even less":   {[]string{"-Djute.maxbuffer=20000"}, 20_000},
		"configured to take much larger": {[]string{"-Djute.maxbuffer=8000000"}, 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := start(t, 1, zktest.WithJava(c.java...))
			log := new(logtest.Buffer)
			n := connect(t, zk.Options{Endpoints: servers.Endpoints(), Lease: time.Minute, Log: slog.New(slog.NewTextHandler(log, nil))})
			coordtest.RunSizes(t, n, log, c.largest)
		})
	}
}
