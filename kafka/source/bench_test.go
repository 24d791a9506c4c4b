package source_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/kafka/source"
)

// BenchmarkRequest makes requests of records of several sizes, by places of their values and without any.
func BenchmarkRequest(b *testing.B) {
	var members strings.Builder
	for i := range 20 {
		fmt.Fprintf(&members, `,"member%d":{"id":%d,"text":"%s"}`, i, i, strings.Repeat("a", 25))
	}
	small := `{"id":"order-4711","kind":"paid","customer":{"id":42}}`
	for _, c := range []struct{ name, value string }{{"small", small}, {"1kB", small[:len(small)-1] + members.String() + "}"}} {
		r := record(c.value, "traceparent", parent)
		for name, d := range map[string]*source.Definition{
			"none": orders(func(d *source.Definition) { d.Key = "key" }),
			"three": orders(func(d *source.Definition) {
				d.Key, d.OrderingKey, d.Filter = "value.id", "value.customer.id", map[string][]string{"value.kind": {"paid"}}
			}),
		} {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(c.value)))
				for b.Loop() {
					if _, matches, err := d.Request(r); err != nil || !matches {
						b.Fatal(matches, err)
					}
				}
			})
		}
	}
}
