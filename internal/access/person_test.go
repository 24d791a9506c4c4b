package access

import (
	"strings"
	"testing"
)

func TestAPersonHasANameThatNoTokenHas(t *testing.T) {
	for _, name := range []string{"ann@example.com", "ann+x@example.com", "auth0|5f7c", "Zoë", "248289761001", "local", strings.Repeat("a", 150)} {
		p, err := Named(name)
		if err != nil || p.PersonName() != name || p.Name == name || p.Label() != "the person "+name {
			t.Errorf("%q: %+v, %v", name, p, err)
			continue
		}
		if (&Token{Name: p.Name, Roles: []Role{View}}).Check() == nil {
			t.Errorf("a token may have the name %s", p.Name)
		}
	}
	for _, name := range []string{"", "a b", "ann (says bob)", "a\nb", "a\u202eb", "\xff", `a"b`, strings.Repeat("a", 151)} {
		if p, err := Named(name); err == nil {
			t.Errorf("%q is accepted: %+v", name, p)
		}
	}
	if token := (&Token{Name: "ops"}); token.PersonName() != "" || token.Label() != "the token ops" {
		t.Errorf("a token is %q, %q", token.PersonName(), token.Label())
	}
}
