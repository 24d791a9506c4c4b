package codec

import (
	"bytes"
	"encoding/hex"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

var payload = Content{Type: "mail", Kind: Payload}

func key(b byte) []byte { return bytes.Repeat([]byte{b}, KeySize) }

func open(t testing.TB, c Config) *Envelope {
	t.Helper()
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func encode(t testing.TB, c Codec, data []byte) []byte {
	t.Helper()
	stored, err := c.Encode(payload, data)
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// The vectors of https://c2sp.org/XAES-256-GCM.
func TestTheCipherIsXAES256GCM(t *testing.T) {
	nonce, text := []byte("ABCDEFGHIJKLMNOPQRSTUVWX"), []byte("XAES-256-GCM")
	for _, c := range []struct {
		key           byte
		authenticated string
		want          string
	}{
		{1, "", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"},
		{3, "c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"},
	} {
		x := newCipher(key(c.key))
		sealed := x.seal(nil, nonce, text, []byte(c.authenticated))
		if got := hex.EncodeToString(sealed); got != c.want {
			t.Errorf("key %d: %s, want %s", c.key, got, c.want)
		}
		if got, err := x.open(nonce, sealed, []byte(c.authenticated)); err != nil || !bytes.Equal(got, text) {
			t.Errorf("key %d: opened as %q, %v", c.key, got, err)
		}
	}
}

func TestWhatIsEncodedIsDecodedByEveryCodecThatHasTheKey(t *testing.T) {
	long := []byte(strings.Repeat("the same words ", 1000))
	keys := map[string][]byte{"old": key(1), "new": key(2)}
	codecs := map[string]*Envelope{
		"nothing":         open(t, Config{Keys: keys}),
		"compress":        open(t, Config{Keys: keys, CompressAbove: 100}),
		"encrypt":         open(t, Config{Keys: keys, Key: "old"}),
		"both, a new key": open(t, Config{Keys: keys, Key: "new", CompressAbove: 100}),
	}
	for name, from := range codecs {
		for _, data := range [][]byte{nil, {}, []byte("x"), []byte(`{"a":1}`), long, []byte(magic), []byte(magic + "\x02abc"), encode(t, from, long)} {
			before := bytes.Clone(data)
			stored := encode(t, from, data)
			if !bytes.Equal(data, before) {
				t.Fatalf("%s changed its data", name)
			}
			for other, to := range codecs {
				got, err := to.Decode(payload, stored)
				if err != nil || !bytes.Equal(got, data) || (got == nil) != (data == nil) {
					t.Errorf("%s encoded %.20q, and %s decoded %.20q, %v", name, data, other, got, err)
				}
			}
		}
	}
	small, plain := encode(t, codecs["compress"], long), encode(t, codecs["nothing"], long)
	if len(small) > len(long)/10 || &plain[0] != &long[0] {
		t.Errorf("%d bytes are compressed to %d", len(long), len(small))
	}
	if short := encode(t, codecs["compress"], []byte("short")); string(short) != "short" {
		t.Errorf("a short payload is stored as %q", short)
	}
	secret := encode(t, codecs["both, a new key"], long)
	if bytes.Contains(secret, []byte("words")) || bytes.Equal(secret, encode(t, codecs["both, a new key"], long)) {
		t.Error("it is not encrypted, or twice in the same way")
	}
	for stored, want := range map[string]string{
		string(plain): "", string(small): "zstd", string(secret): "zstd, aes-256-gcm with the key new",
		string(encode(t, codecs["encrypt"], []byte("x"))): "aes-256-gcm with the key old",
	} {
		if got := Describe([]byte(stored)); got != want {
			t.Errorf("described as %q, want %q", got, want)
		}
	}
}

func TestWhatIsEncryptedIsDecodedOnlyAsWhatItIs(t *testing.T) {
	e := open(t, Config{Keys: map[string][]byte{"k": key(1)}, Key: "k", CompressAbove: 1})
	stored := encode(t, e, []byte("a secret that is a secret that is a secret"))
	for _, c := range []Content{{Type: "mail", Kind: Result}, {Type: "mail", Kind: Checkpoint}, {Type: "mai", Kind: Payload}, {Type: "mail2", Kind: Payload}} {
		if got, err := e.Decode(c, stored); !errors.Is(err, ErrDamaged) {
			t.Errorf("as %v it is %q, %v", c, got, err)
		}
	}
	for i := range stored {
		bad := bytes.Clone(stored)
		bad[i] ^= 1
		got, err := e.Decode(payload, bad)
		if i < len(magic) {
			continue // it is no envelope any more
		}
		if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNoKey) {
			t.Errorf("with another byte %d it is %q, %v", i, got, err)
		}
	}
	for n := len(magic); n < len(stored); n++ {
		if got, err := e.Decode(payload, stored[:n]); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNoKey) {
			t.Errorf("cut off after %d bytes it is %q, %v", n, got, err)
		}
	}
}

func TestAKeyThatIsMissingIsNotTakenForDamage(t *testing.T) {
	stored := encode(t, open(t, Config{Keys: map[string][]byte{"k": key(1)}, Key: "k"}), []byte("a secret"))
	for name, keys := range map[string]map[string][]byte{"no key": nil, "another key of the name": {"k": key(2)}} {
		got, err := open(t, Config{Keys: keys}).Decode(payload, stored)
		var missing *MissingKeyError
		if !errors.As(err, &missing) || !errors.Is(err, ErrNoKey) || errors.Is(err, ErrDamaged) || missing.Key != "k" || missing.Differs != (keys != nil) || missing.Kind != Payload {
			t.Errorf("with %s it is %q, %v", name, got, err)
		}
	}
}

func TestACodecKnowsWhatIsNotUnderItsKey(t *testing.T) {
	keys := map[string][]byte{"old": key(1), "new": key(2)}
	old, current := open(t, Config{Keys: keys, Key: "old"}), open(t, Config{Keys: keys, Key: "new", CompressAbove: 1})
	plain := open(t, Config{Keys: keys, CompressAbove: 1})
	long := bytes.Repeat([]byte("long "), 100)
	for _, c := range []struct {
		by     *Envelope
		stored []byte
		key    string
		want   bool
	}{
		{current, encode(t, current, long), "new", true},
		{current, encode(t, old, long), "old", false},
		{current, long, "", false},
		{current, encode(t, plain, long), "", false},
		{current, nil, "", true},
		{plain, long, "", true},
		{plain, encode(t, plain, long), "", true},
		{plain, encode(t, old, long), "old", false},
	} {
		if got := c.by.IsCurrent(c.stored); got != c.want || KeyOf(c.stored) != c.key {
			t.Errorf("%.20q: %v, key %q; want %v, %q", c.stored, got, KeyOf(c.stored), c.want, c.key)
		}
	}
	if !plain.HasKey("old") || plain.HasKey("older") || plain.HasKey("") {
		t.Error("HasKey is wrong")
	}
}

func TestWhatIsCompressedIsNoLargerThanItsTypeAllows(t *testing.T) {
	e := open(t, Config{CompressAbove: 1})
	zeros := make([]byte, 64<<20)
	packed := encode(t, e, zeros)
	at := payload
	at.Max = 1 << 20
	var single, streamed bytes.Buffer
	single.WriteString(magic + "\x01")
	w, err := zstd.NewWriter(&single, zstd.WithSingleSegment(false)) // a stream does not say how large it is
	if err != nil {
		t.Fatal(err)
	}
	for range 64 {
		if _, err := w.Write(zeros[:1<<20]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	streamed.WriteString(magic + "\x01")
	for range 64 { // many frames, each of which is small enough
		streamed.Write(encode(t, e, zeros[:1<<20])[len(magic)+1:])
	}
	for name, stored := range map[string][]byte{"one frame": packed, "a stream": single.Bytes(), "many frames": streamed.Bytes()} {
		if len(stored) > 1<<20 {
			t.Fatalf("%s: %d bytes", name, len(stored))
		}
		if _, err := e.Decode(at, stored); !errors.Is(err, ErrTooLarge) || errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = e.Decode(at, stored)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 32<<20 {
			t.Errorf("%s: decoding it took %d bytes", name, n)
		}
	}
	at.Max = len(zeros)
	for name, stored := range map[string][]byte{"one frame": packed, "a stream": single.Bytes(), "many frames": streamed.Bytes()} {
		if got, err := e.Decode(at, stored); err != nil || !bytes.Equal(got, zeros) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}

func TestConfigurationsThatCannotBeAreRefused(t *testing.T) {
	for want, c := range map[string]Config{
		`no key "a"`:       {Key: "a"},
		"has 3 bytes":      {Keys: map[string][]byte{"a": []byte("abc")}},
		"1 to 64 bytes":    {Keys: map[string][]byte{strings.Repeat("x", 65): key(1)}},
		"from -1 bytes on": {CompressAbove: -1},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	e := open(f, Config{Keys: map[string][]byte{"k": key(1)}, Key: "k", CompressAbove: 1})
	f.Add(encode(f, e, []byte("hello hello hello hello")))
	f.Add(encode(f, open(f, Config{CompressAbove: 1}), []byte("hello hello hello hello hello hello")))
	f.Add([]byte(magic + "\x02\xff"))
	f.Fuzz(func(t *testing.T, stored []byte) {
		data, err := e.Decode(payload, stored)
		if err != nil {
			return
		}
		again, err := e.Encode(payload, data)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := e.Decode(payload, again); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%q becomes %q, %v", data, got, err)
		}
	})
}

func BenchmarkCodec(b *testing.B) {
	data := []byte(`{"to":"someone@example.org","template":"welcome","data":{"name":"A Name","plan":"large"}}`)
	for name, c := range map[string]Config{
		"nothing": {}, "encrypt": {Keys: map[string][]byte{"k": key(1)}, Key: "k"}, "compress": {CompressAbove: 1},
	} {
		e := open(b, c)
		b.Run("encode/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				encode(b, e, data)
			}
		})
		stored := encode(b, e, data)
		b.Run("decode/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Decode(payload, stored); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
