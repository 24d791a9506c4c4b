package task_test

import (
	"strings"
	"testing"

	"github.com/taskengine/taskengine/task"
)

func TestTheKindOfAnErrorLeavesOutNumbersIdsAndAddresses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, pattern string }{
		{"", ""},
		{"out of memory", "out of memory"},
		{"row 17 of 500 is wrong", "row # of # is wrong"},
		{"dial tcp 10.0.3.7:5432: connect: connection refused", "dial tcp #: connect: connection refused"},
		{"dial tcp [fe80::1ff:fe23:4567:890a]:5432: refused", "dial tcp [#]:#: refused"},
		{"order abcdefab-face-cafe-beef-abcdefabcdef is unknown", "order # is unknown"},
		{"order 3f2b8c1e-9d4a-4c61-8e37-a2b4c6d8e0f1 is unknown", "order # is unknown"},
		{"order 01JDWV7K3MZ8Q4R6T9XYB2C5DE is unknown", "order # is unknown"},
		{"POST http://shop/orders/17: answered 503 Service Unavailable", "POST http://shop/orders/#: answered 503 Service Unavailable"},
		{"POST http://shop/orders/17: answered 504 Gateway Timeout", "POST http://shop/orders/#: answered 504 Gateway Timeout"},
		{"POST http://127.0.0.1:39209: answered 503", "POST http://#: answered 503"},
		{"GET https://10.0.3.7/orders/17: EOF", "GET https://#/orders/#: EOF"},
		{"HTTP/1.1 503 Service Unavailable", "HTTP/1.1 503 Service Unavailable"},
		{"http/2 answered 502 after 17ms", "http/2 answered 502 after #"},
		{"HTTP/2.0 error 7", "HTTP/2.0 error #"},
		{"HTTP 429", "HTTP 429"},
		{"exit status 137", "exit status 137"},
		{"ERROR: duplicate key (SQLSTATE 23505)", "ERROR: duplicate key (SQLSTATE 23505)"},
		{"2026-05-02T12:00:55.123Z it failed after 17ms", "# it failed after #"},
		{"panic at 0xc000123abc", "panic at #"},
		{"node17 does not answer", "node# does not answer"},
		{"row 17 is wrong (attempt 5 of 5)", "row # is wrong"},
		{"two\n\tlines", "two lines"},
		{"Größe 17 €", "Größe # €"},
		{"a \xff\x00 b 7", "a \xff\x00 b #"},
	} {
		if got := task.ErrorPattern(c.text); got != c.pattern {
			t.Errorf("%q has the pattern\n%q, not\n%q", c.text, got, c.pattern)
		}
	}
	if a, b := task.KindOfError("row 1"), task.KindOfError("row 22"); a != b || a == 0 {
		t.Errorf("the kinds are %v and %v", a, b)
	}
	if a, b := task.KindOfError("answered 503"), task.KindOfError("answered 504"); a == b {
		t.Errorf("both have the kind %v", a)
	}
	if k := task.KindOfError(""); k != 0 {
		t.Errorf("no error has the kind %v", k)
	}
	if k := task.KindOfError("row 1").String(); len(k) != 16 || strings.Trim(k, "0123456789abcdef") != "" {
		t.Errorf("a kind is %q", k)
	}
}

func FuzzErrorPattern(f *testing.F) {
	f.Add("dial tcp 10.0.3.7:5432: connection refused")
	f.Fuzz(func(t *testing.T, text string) {
		pattern := task.ErrorPattern(text)
		if len(pattern) > 2*task.MaxErrorText {
			t.Errorf("%q has a pattern of %d bytes", text, len(pattern))
		}
		if text != "" && len(text) <= task.MaxErrorText && task.KindOfError(text) != task.KindOfError(text+" ") {
			t.Errorf("a space at the end of %q changes its kind", text)
		}
	})
}

func BenchmarkKindOfError(b *testing.B) {
	text := strings.Repeat("POST http://shop/orders/17: answered 503 Service Unavailable; ", 4)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		task.KindOfError(text)
	}
}
