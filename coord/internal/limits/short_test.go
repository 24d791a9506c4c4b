package limits

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLongNamesAreShortAndDiffer(t *testing.T) {
	const most = 64
	long := strings.Repeat("ü", 500)
	seen := map[string]string{}
	for _, name := range []string{"", "partner/acme", long[:most], long, long + "a", long + "b", Short(long, most), Short(Short(long, most), most)} {
		short := Short(name, most)
		if other, ok := seen[short]; ok && other != name {
			t.Errorf("%q stands for %q and %q", short, other, name)
		}
		seen[short] = name
		if len(name) <= most && short != name || len(short) > most+44 || !utf8.ValidString(short) {
			t.Errorf("%q stands for %q", short, name)
		}
	}
}
