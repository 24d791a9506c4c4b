package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cavaliergopher/cpio"
)

// testPack is a package with a program that says its version, and the files of the service of this repository.
func testPack(t *testing.T, version string) *pack {
	t.Helper()
	x := &extras{
		manual:      []file{{name: "taskengine.1", mode: 0o644, content: []byte(".TH\n")}},
		completions: map[string][]byte{"bash": []byte("b"), "zsh": []byte("z"), "fish": []byte("f")},
	}
	documents := []file{{name: "LICENSE", mode: 0o644, content: []byte("licence")}, {name: "THIRD-PARTY-LICENSES.txt", mode: 0o644}}
	files, err := packageFiles("../..", []byte("#!/bin/sh\necho "+version+"\n"), documents, x, "usr/share/zsh/site-functions/")
	if err != nil {
		t.Fatal(err)
	}
	return &pack{platform: platform{"linux", "arm64"}, version: version, date: date, files: files, level: gzip.BestSpeed}
}

// members are the files in an ar archive by their names, and the names in order.
func members(t *testing.T, archive []byte) (content map[string][]byte, names []string) {
	t.Helper()
	rest, ok := bytes.CutPrefix(archive, []byte("!<arch>\n"))
	if !ok {
		t.Fatal("this is no ar archive")
	}
	content = make(map[string][]byte)
	for len(rest) > 0 {
		name := strings.TrimSpace(string(rest[:16]))
		size, err := strconv.Atoi(strings.TrimSpace(string(rest[48:58])))
		if err != nil || string(rest[58:60]) != "`\n" {
			t.Fatalf("the header of %s is %q", name, rest[:60])
		}
		content[name], names = rest[60:60+size], append(names, name)
		rest = rest[60+size+size%2:]
	}
	return content, names
}

func TestPackagesAreTheSameEachTime(t *testing.T) {
	for name, write := range map[string]func(*pack, io.Writer) error{"deb": (*pack).writeDeb, "rpm": (*pack).writeRPM} {
		once := func() []byte {
			return made(t, func(w io.Writer) error { return write(testPack(t, "v1.2.3"), w) })
		}
		if !bytes.Equal(once(), once()) {
			t.Errorf("the %s was made twice and differs", name)
		}
	}
}

func TestADebHasTheFilesAndTheirFolders(t *testing.T) {
	p := testPack(t, "v1.3.0-rc.1")
	parts, order := members(t, made(t, p.writeDeb))
	if !slices.Equal(order, []string{"debian-binary", "control.tar.gz", "data.tar.gz"}) {
		t.Fatalf("the parts are %v", order)
	}
	_, control, _ := unpacked(t, plain(t, parts["control.tar.gz"]))
	for _, want := range []string{"Version: 1.3.0~rc.1\n", "Architecture: arm64\n"} {
		if !strings.Contains(string(control["./control"]), want) {
			t.Errorf("the description has no %q: %s", want, control["./control"])
		}
	}
	files, content, names := unpacked(t, plain(t, parts["data.tar.gz"]))
	for at, name := range names[1:] {
		if dir := "./" + path.Dir(strings.TrimSuffix(name, "/")); dir != "./." && !slices.Contains(names[:at+1], dir+"/") {
			t.Errorf("%s is in the package before its folder", name)
		}
	}
	if files["./usr/bin/taskengine"].Mode != 0o755 || files["./"+packageConfig] == nil || string(control["./conffiles"]) != "/"+packageConfig+"\n" {
		t.Errorf("the package has %v", names)
	}
	if page := plain(t, content["./usr/share/man/man1/taskengine.1.gz"]); string(page) != ".TH\n" {
		t.Errorf("the page is %q", page)
	}
}

// rpmHeader are the values of a header by their tags.
type rpmHeader struct {
	index map[uint32][4]uint32 // tag, type, place and count
	store []byte
}

// readHeader reads a header and returns the rest of the data.
func readHeader(t *testing.T, text []byte) (rpmHeader, []byte) {
	t.Helper()
	if !bytes.HasPrefix(text, []byte{0x8e, 0xad, 0xe8, 1}) {
		t.Fatalf("this is no header: %x", text[:8])
	}
	number := func(at int) uint32 { return binary.BigEndian.Uint32(text[at:]) }
	h := rpmHeader{index: make(map[uint32][4]uint32)}
	n, size := int(number(8)), int(number(12))
	for at := 16; at < 16+16*n; at += 16 {
		h.index[number(at)] = [4]uint32{number(at), number(at + 4), number(at + 8), number(at + 12)}
	}
	h.store = text[16+16*n : 16+16*n+size]
	return h, text[16+16*n+size:]
}

func (h rpmHeader) texts(tag uint32) (all []string) {
	rest := h.store[h.index[tag][2]:]
	for range h.index[tag][3] {
		one, after, _ := bytes.Cut(rest, []byte{0})
		all, rest = append(all, string(one)), after
	}
	return all
}

func (h rpmHeader) numbers(tag uint32) (all []uint32) {
	const sixteen = 3 // the type of numbers of 16 bits; the others here have 32
	for i := range h.index[tag][3] {
		if at := h.index[tag][2]; h.index[tag][1] == sixteen {
			all = append(all, uint32(binary.BigEndian.Uint16(h.store[at+2*i:])))
		} else {
			all = append(all, binary.BigEndian.Uint32(h.store[at+4*i:]))
		}
	}
	return all
}

// The tags of rpm.
const (
	tagVersion, tagBuilt, tagArchitecture, tagPost, tagPreun, tagPostun = 1001, 1006, 1022, 1024, 1025, 1026
	tagModes, tagTimes, tagDigests, tagFlags, tagFolderOf, tagNames     = 1030, 1034, 1035, 1037, 1116, 1117
	tagFolders, tagPayload                                              = 1118, 5092
)

func TestAnRPMHasTheFilesThatItsHeaderNames(t *testing.T) {
	p := testPack(t, "v1.3.0-rc.1")
	_, rest := readHeader(t, made(t, p.writeRPM)[96:])
	h, payload := readHeader(t, bytes.TrimLeft(rest, "\x00"))
	if got := []string{h.texts(tagVersion)[0], h.texts(tagArchitecture)[0]}; !slices.Equal(got, []string{"1.3.0~rc.1", "aarch64"}) || int64(h.numbers(tagBuilt)[0]) != date.Unix() {
		t.Errorf("the version and the architecture are %q", got)
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(payload)); got != h.texts(tagPayload)[0] {
		t.Errorf("the files have the checksum %s, the header says %s", got, h.texts(tagPayload)[0])
	}
	digests := make(map[string]string)
	names, folders, of := h.texts(tagNames), h.texts(tagFolders), h.numbers(tagFolderOf)
	for i, name := range names {
		digests[folders[of[i]]+name] = h.texts(tagDigests)[i]
		if int64(h.numbers(tagTimes)[i]) != date.Unix() {
			t.Errorf("%s is not of the date of the commit", name)
		}
		isConfig := h.numbers(tagFlags)[i] == 1|16 // %config(noreplace)
		if isConfig != (folders[of[i]]+name == "/"+packageConfig) {
			t.Errorf("%s has the flags %d", name, h.numbers(tagFlags)[i])
		}
		if name == "taskengine" && folders[of[i]] == "/usr/bin/" && h.numbers(tagModes)[i] != 0o100755 {
			t.Errorf("the program has the mode %o", h.numbers(tagModes)[i])
		}
	}
	found := make(map[string]string)
	for r := cpio.NewReader(bytes.NewReader(plain(t, payload))); ; {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if found[f.Name] = ""; f.Mode.IsRegular() {
			found[f.Name] = fmt.Sprintf("%x", sha256.Sum256(content))
		}
	}
	if !maps.Equal(found, digests) {
		t.Errorf("the package has %v, the header says %v", found, digests)
	}
	for _, f := range p.files {
		if found["/"+f.name] == "" {
			t.Errorf("%s is missing", f.name)
		}
	}
	if len(found) != len(p.files)+2 {
		t.Errorf("it has other folders than its own two: %v", slices.Sorted(maps.Keys(found)))
	}
	for tag, want := range map[uint32]string{tagPost: "systemd-sysusers", tagPreun: "disable", tagPostun: "daemon-reload"} {
		if script := h.texts(tag)[0]; !strings.Contains(script, want) {
			t.Errorf("the script is %q", script)
		}
	}
	if err := (&pack{platform: platform{"linux", "riscv64"}}).writeRPM(io.Discard); err == nil || !strings.Contains(err.Error(), "rpmArchitectures") {
		t.Errorf("an unknown architecture: %v", err)
	}
}

func TestAVersionBeforeAReleaseSortsBeforeIt(t *testing.T) {
	for version, want := range map[string]string{"v1.2.3": "1.2.3", "v1.2.3-rc.1": "1.2.3~rc.1", "v1.2.3-a-b": "1.2.3~a.b"} {
		if got := packageVersion(version); got != want {
			t.Errorf("%s is %s, want %s", version, got, want)
		}
	}
}

func TestArchivesHaveTheManualAndTheCompletions(t *testing.T) {
	x := &extras{manual: []file{{name: "taskengine.1"}}, completions: map[string][]byte{"bash": []byte("b"), "zsh": []byte("z"), "fish": []byte("f")}}
	got := make(map[string]string)
	for _, f := range x.inArchive() {
		got[f.name] = string(f.content)
	}
	if want := map[string]string{"man/man1/taskengine.1": "", "completions/taskengine": "b", "completions/_taskengine": "z", "completions/taskengine.fish": "f"}; !maps.Equal(got, want) {
		t.Errorf("the files are %v", got)
	}
}
