package programlog

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAPluginsLinesAreCutAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		h := NewThrottle(slog.NewTextHandler(&out, nil))
		log := slog.New(h).With("handler", "x")
		for range 3*LinesPerSecond + 5 {
			log.Info("line")
		}
		if n := strings.Count(out.String(), "\n"); n != LinesPerSecond {
			t.Errorf("%d lines passed in a second, want %d", n, LinesPerSecond)
		}
		time.Sleep(time.Second)
		out.Reset()
		log.Info("after")
		if want := fmt.Sprintf("msg=after handler=x lines_dropped_before=%d\n", 2*LinesPerSecond+5); !strings.HasSuffix(out.String(), want) {
			t.Errorf("the next line is %q, want %q", out.String(), want)
		}

		time.Sleep(time.Second)
		out.Reset()
		for range 400 {
			log.Info(strings.Repeat("x", 1<<20), "k", strings.Repeat("y", 1<<20), "l", []string{strings.Repeat("z", 1<<20)})
		}
		if n := out.Len(); n > 2*bytesPerSecond {
			t.Errorf("%d bytes passed in a second", n)
		}
		line, _, _ := strings.Cut(out.String(), "\n")
		if len(line) > 2*(messageBytes+attrsBytes) || !strings.Contains(line, "bytes cut") {
			t.Errorf("a line of %d bytes passed: %.50q", len(line), line)
		}
		out.Reset()
		h.LogDropped()
		h.LogDropped()
		if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "lines_dropped_before=3") {
			t.Errorf("in the end the log says %q", got)
		}
		out.Reset()
		time.Sleep(time.Second)
		many := make([]slog.Attr, 1000)
		for i := range many {
			many[i] = slog.Int(fmt.Sprint("n", i), i)
		}
		log.LogAttrs(t.Context(), slog.LevelInfo, "many", many...)
		if got := out.String(); !strings.Contains(got, fmt.Sprintf("fields_cut=%d", 1000-attrsCount)) || strings.Contains(got, "n999") {
			t.Errorf("the line is %q", got)
		}
	})
}
