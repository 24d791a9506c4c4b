package filter_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/task"
)

var now = time.Date(2026, 5, 2, 12, 0, 0, 0, time.UTC)

// id returns an id that is the same in each run.
func id(n byte) task.ID { return task.ID{0: 1, 6: 0x70, 8: 0x80, 15: n} }

func rows() []*task.Task {
	return []*task.Task{
		{
			ID: id(1), State: task.Error, Type: "pay", Key: "a", OrderingKey: "cust-1", LastError: "POST http://bank/17: answered 503 Service Unavailable",
			Priority: 2, Attempt: 3, Node: "n1", CreatedAt: now.Add(-3 * time.Hour), UpdatedAt: now.Add(-time.Hour), Headers: map[string]string{"tenant": "t7", "a.b": "x"},
			Payload: []byte(`{"customer": {"id": 17, "vip": true}, "tags": ["red", "blue"], "items": [{"sku": "x1"}, {"sku": "x2"}], "amount": 1e2, "note": null}`),
		},
		{
			ID: id(2), State: task.Error, Type: "payout", LastError: "POST http://bank/18: answered 503 Service Unavailable",
			Priority: 5, Attempt: 10, Node: "n2", CreatedAt: now.Add(-30 * time.Minute), UpdatedAt: now.Add(-time.Minute), StartedAt: now.Add(-2 * time.Minute),
			Payload: []byte(`{"customer": {"id": "17"}, "amount": 100.0}`), Parent: &task.Parent{ID: id(1)},
		},
		{ID: id(3), State: task.Waiting, Type: "mail", Key: "a*b", CreatedAt: now.Add(-48 * time.Hour), UpdatedAt: now.Add(-48 * time.Hour), Priority: 9, Payload: []byte("no JSON"), Headers: map[string]string{"tenant": "T8, x"}},
		{ID: id(4), State: task.Done, Type: "mail", CreatedAt: now, UpdatedAt: now, Result: []byte(`{"sent": 12345678901234567890}`), LastError: ""},
	}
}

func TestTermsSelectTasks(t *testing.T) {
	t.Parallel()
	kind := task.KindOfError(rows()[0].LastError).String()
	for text, want := range map[string]string{
		"":                                 "1234",
		"state=error":                      "12",
		"state=error,waiting":              "123",
		"state!=error,waiting":             "4",
		"type=pay":                         "1",
		"type=pay*":                        "12",
		"type=*a*":                         "1234",
		`type="pay*"`:                      "",
		"type!=pay*":                       "34",
		"key=a":                            "1",
		"key=":                             "24",
		"key!=":                            "13",
		`key="a*b"`:                        "3",
		"key=a*":                           "13",
		"ordering_key=cust-*":              "1",
		`error~"service unavailable"`:      "12",
		"error~17,18":                      "12",
		"error!~503":                       "34",
		"error=":                           "34",
		"error.kind=" + kind:               "12",
		"error.kind=" + kind[:4]:           "12",
		"error.kind!=" + kind:              "34",
		"priority<=2":                      "14",
		"priority=2,9":                     "13",
		"priority!=2,9":                    "24",
		"attempt>=3 and attempt<10":        "1",
		"node=n1":                          "1",
		"node!=n1":                         "234",
		"id=" + id(2).String():             "2",
		"parent=" + id(1).String():         "2",
		"parent=":                          "134",
		"parent!=":                         "2",
		"since=2h":                         "124",
		"until=30m":                        "13",
		"age>1h":                           "13",
		"age<=3h":                          "124",
		"created>=2026-05-02":              "124",
		"created<2026-05-02T11:00":         "13",
		"since=2026-05-02T13:30:00+02:00":  "24",
		"started>2026-01-01":               "2",
		"started<2026-12-01":               "2",
		"header.tenant=t7":                 "1",
		`header.tenant="T8, x"`:            "3",
		"header.tenant!=t7":                "234",
		"headers.tenant~t":                 "13",
		"header.a.b=x":                     "1",
		"payload.customer.id=17":           "12",
		"payload.customer.id>16":           "12",
		"payload.customer.id=170e-1":       "1",
		"payload.customer.vip=true":        "1",
		"payload.customer=":                "1234",
		"payload.amount=100":               "12",
		"payload.amount>=99.5":             "12",
		"payload.amount<1000 type=pay":     "1",
		"payload.note=":                    "1234",
		"payload.tags=blue":                "1",
		"payload.tags!=blue":               "234",
		"payload.tags.0=blue":              "",
		"payload.items.sku=x2":             "1",
		`payload."items".1.sku=x2`:         "1",
		"payload.items.2.sku=x2":           "",
		"payload.absent<5":                 "",
		"result.sent=12345678901234567890": "4",
		"result.sent=12345678901234567891": "",
		"  state==error   since=30m  ":     "2",
	} {
		f, err := filter.Parse(text, now)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := selected(f); got != want {
			t.Errorf("%s selects %q, not %q", text, got, want)
		}
		again, err := filter.Parse(f.String(), now.Add(1000*time.Hour))
		if err != nil {
			t.Errorf("%s is written as %s: %v", text, f, err)
		} else if got := selected(again); got != want || again.String() != f.String() {
			t.Errorf("%s is written as %s, which selects %q, not %q", text, f, got, want)
		}
	}
}

func selected(f filter.Filter) string {
	var got strings.Builder
	for i, row := range rows() {
		if f.Selects(row) {
			fmt.Fprint(&got, i+1)
		}
	}
	return got.String()
}

func TestMistakesAreExplainedWithTheirColumn(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"state=eror":                         "column 7: there is no state \"eror\": did you mean error?",
		"stat=error":                         "column 1: there is no field stat: did you mean state?",
		"type=pay  prioritie<2":              "column 11: there is no field prioritie: did you mean priority?",
		"503":                                "column 1: there is no field 503: use one of state",
		"state":                              "column 6: an operator is missing after state: use = or !=",
		"state~err":                          "column 6: state cannot be compared with ~: use = or !=",
		"priority=high":                      "column 10: priority is compared with a whole number, and \"high\" is none",
		"created>2h":                         "column 9: created is compared with a time such as 2026-05-02 or 2026-05-02T12:00:55Z; for a duration there are since, until and age",
		"created=2026-05-02":                 "column 8: created cannot be compared with =",
		"since=yesterday":                    "column 7: since is compared with a duration such as 90s, 2h or 3d, or a time",
		"since>2h":                           "column 6: since cannot be compared with >: use =",
		"age>2026-05-02":                     "column 5: age is compared with a duration",
		"since=999999d":                      "column 7: since is compared with",
		"header=t7":                          "column 7: the name of a header is missing",
		"payload=17":                         "column 8: a part of the payload is missing",
		"type.x=1":                           "column 1: type has no parts, and type.x is no field",
		`error~"503`:                         "column 7: the text in quotes has no end",
		`error~"503"type=pay`:                "column 12: a space or a comma is missing",
		`error~"a\n"`:                        "column 9: after \\ comes",
		`Größe="a" `:                         "column 1: there is no field Größe",
		`error="ä" type<`:                    "column 15: type cannot be compared with <",
		"attempt>1,2":                        "column 1: attempt > has several values: give one",
		"type=pay since=1h,2h":               "column 10: since = has several values: give one",
		"error~":                             "column 7: a text is missing after error~",
		"payload.a<":                         "column 11: a value is missing after payload.a<",
		"id=17":                              "column 4: \"17\" is no id of a task",
		"error.kind=12":                      "column 12: \"12\" is no kind of error",
		"error.kind=xyzt":                    "is no kind of error",
		"(state=error)":                      "column 1: \"(state=error)\" cannot be here",
		"state=error || type=x":              "column 13: \"||\" cannot be here: all terms hold",
		"payload..a=1":                       "column 9: ",
		"state=error and":                    "column",
		"type=a\xff":                         "column 1: the filter is not UTF-8 text",
		strings.Repeat("x", 8193):            "column 1: the filter has 8193 bytes, of 8192 allowed",
		strings.Repeat("type=a ", 65):        "more than 64 terms",
		"type=" + strings.Repeat("a,", 1000): "more than 1000 values",
	} {
		f, err := filter.Parse(text, now)
		var wrong *filter.SyntaxError
		if text == "state=error and" {
			if err != nil {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %v, %v, not %s", text, f, err, want)
		}
	}
}

func TestAFilterOfRowsHasNoTermOfPayloadsAndResults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "state=error header.a=b": "state=error header.a=b", "payload.a=1": "", "result.a=1 type=a": "type=a", "payload.a=1 key=k result.b=2": "key=k",
	} {
		f := parse(t, text)
		if rows := f.Rows(); rows.String() != want || f.OfRows() != (want == f.String()) || !rows.OfRows() {
			t.Errorf("of %s the terms of rows are %q, and OfRows is %v", text, rows, f.OfRows())
		}
	}
}

// TestRandomFiltersHaveTheirOwnMeaning compares a filter with its parts, with its written form, and with its bounds.
func TestRandomFiltersHaveTheirOwnMeaning(t *testing.T) {
	t.Parallel()
	terms := []string{
		"state=error", "state!=error", "state=waiting,error", "type=pay", "type=mail,pay", "type=pay*", "type!=pay", "key=a", "key=", "key=b", "priority<5", "attempt!=3,10",
		"created>=2026-05-02", "created<=2026-05-02T09:00", "created<2026-05-02T12:00", "created>2026-05-02T11:30", "age>1h", "since=2h", "until=10m", "error~bank", "error!~bank",
		"error.kind=" + task.KindOfError(rows()[0].LastError).String()[:5], "error.kind=0000", "id=" + id(2).String(), "id!=" + id(2).String(), "parent=" + id(1).String(), "parent=",
		"payload.customer.id=17", "payload.tags!=red", "header.tenant~t", "node=n1", `key="a*b"`,
	}
	rapid.Check(t, func(t *rapid.T) {
		chosen := rapid.SliceOfN(rapid.SampledFrom(terms), 0, 4).Draw(t, "terms")
		f := parse(t, strings.Join(chosen, " "))
		again := parse(t, f.String())
		bounds, ok := f.Bounds()
		for i, row := range rows() {
			want := true
			for _, one := range chosen {
				want = want && parse(t, one).Selects(row)
			}
			if f.Selects(row) != want || again.Selects(row) != want {
				t.Fatalf("%s selects row %d: %v, written as %s: %v; its terms: %v", strings.Join(chosen, " "), i+1, f.Selects(row), f, again.Selects(row), want)
			}
			if want && (!ok || !within(bounds, row)) {
				t.Fatalf("%s selects row %d, which is not within %+v, %v", f, i+1, bounds, ok)
			}
		}
	})
}

func parse(t interface{ Fatalf(string, ...any) }, text string) filter.Filter {
	f, err := filter.Parse(text, now)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return f
}

func within(b filter.Bounds, row *task.Task) bool {
	has := func(is bool, in bool) bool { return !is || in }
	return has(b.States != nil, strings.Contains(fmt.Sprint(b.States), row.State.String())) && has(b.Types != nil, strings.Contains(fmt.Sprint(b.Types), row.Type)) &&
		has(b.Key != "", b.Key == row.Key) && has(b.IDs != nil, slices.Contains(b.IDs, row.ID))
}

func TestBoundsAreAsNarrowAsTermsSay(t *testing.T) {
	t.Parallel()
	const first, second, third = "01900000-0000-7000-8000-000000000001", "01900000-0000-7000-8000-000000000002", "01900000-0000-7000-8000-000000000003"
	for text, want := range map[string]string{
		"state=error,waiting state!=waiting": "[error] []",
		"type=a,b type=b,c":                  "[] [b]",
		"type=a* state=error":                "[error] []",
	} {
		b, ok := parse(t, text).Bounds()
		if got := fmt.Sprint(b.States, " ", b.Types); !ok || got != want {
			t.Errorf("%s: got %s, %v, not %s", text, got, ok, want)
		}
	}
	b, ok := parse(t, "id="+third+","+first+","+third+","+second+" id="+first+","+third).Bounds()
	if got := fmt.Sprint(b.IDs); !ok || got != fmt.Sprint([]string{third, first}) {
		t.Errorf("several ids have the bounds %s, %v", got, ok)
	}
	for _, text := range []string{"state=error state=waiting", "type=a type=b", "key=a key=b", "id=" + first + " id=" + second + "," + third} {
		if b, ok := parse(t, text).Bounds(); ok {
			t.Errorf("%s selects nothing, and has the bounds %+v", text, b)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{`state=error type=pay* error~"503"`, `payload."a.b".0>=1e3,x`, "since=2h key=,a"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		is, err := filter.Parse(text, now)
		if err != nil {
			return
		}
		again, err := filter.Parse(is.String(), now)
		if err != nil || again.String() != is.String() || selected(again) != selected(is) {
			t.Errorf("%q is written as %q, and that as %q, %v", text, is, again, err)
		}
	})
}

func TestAFilterIsWordedWithoutContent(t *testing.T) {
	f, err := filter.Parse(`type=pay* state=error key=anna header.who="anna b" payload.customer.email~anna result.x>5 error~anna priority<3 ordering_key!=anna node=n1`, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	const want = `type=pay* state=error key=? header.who=? payload.customer.email~? result.x>? error~? priority<3 ordering_key!=? node=n1`
	if got := f.WithoutContent(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
