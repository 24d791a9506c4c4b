package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const tree = "../.."

// stamped returns a copy of the files with versions, stamped for a version.
func stamped(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	files := []string{"plugins/sdk/python/README.md", "plugins/sdk/node/README.md", "plugins/sdk/java/README.md"}
	for _, p := range places {
		files = append(files, p.file)
	}
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(tree, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(dir, path.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), string(text))
	}
	if err := (&repository{version: version, commit: "c0ffee"}).stamp(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAReleaseHasOneVersionInAllPackages(t *testing.T) {
	dir := stamped(t, "v1.3.0-rc.1")
	for name, want := range map[string]string{
		"plugins/sdk/python/taskengine/_version.py":                                `VERSION = "1.3.0rc1"`,
		"plugins/sdk/node/src/version.ts":                                          `VERSION = "1.3.0-rc.1"`,
		"plugins/sdk/node/package.json":                                            `"gitHead": "c0ffee"`,
		"plugins/sdk/java/pom.xml":                                                 "<tag>c0ffee</tag>",
		"plugins/sdk/java/src/main/java/io/github/taskengine/handler/Session.java": `SDK_VERSION = "1.3.0-rc.1"`,
		"plugins/sdk/java/README.md":                                               "](https://github.com/taskengine/taskengine/blob/v1.3.0-rc.1/docs/slices.md#look-at-platforms-and-change-them)",
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s has no %s: %v", name, want, err)
		}
	}
	pom, err := os.ReadFile(filepath.Join(dir, "plugins/sdk/java/pom.xml"))
	if err != nil || !strings.Contains(string(pom), "<version>1.3.0-rc.1</version>") || strings.Contains(string(pom), "<version>0.1.0</version>") {
		t.Errorf("the version is not in pom.xml: %v", err)
	}
}

// The packages of projects that tests and `handler new` make have the version of the sources, too: they would not be found otherwise.
func TestThePackagesOfTheRepositoryHaveOneVersion(t *testing.T) {
	for name, want := range map[string]string{
		"plugins/sdk/java/README.md":                                   "<version>0.1.0</version>",
		"plugins/sdk/java/consumer/pom.xml":                            "<version>0.1.0</version>",
		"examples/recipes/spring/pom.xml":                              "<version>0.1.0</version>",
		"examples/recipes/express/package.json":                        `"taskengine-handler": "0.1.0"`,
		"plugins/sdk/node/package-lock.json":                           `"version": "0.1.0"`,
		"cmd/taskengine/internal/scaffold/templates/java/pom.xml.tmpl": "<artifactId>taskengine-handler</artifactId>\n      <version>0.1.0</version>",
	} {
		text, err := os.ReadFile(filepath.Join(tree, name))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s has no %q: %v", name, want, err)
		}
	}
}

func TestVersionsOfPythonAreThoseOfPython(t *testing.T) {
	for version, want := range map[string]string{
		"1.2.3": "1.2.3", "1.2.3-rc.1": "1.2.3rc1", "1.2.3-beta2": "1.2.3b2", "1.2.3-alpha.10": "1.2.3a10", "1.2.3-Mine-4": "1.2.3.dev0+mine.4",
	} {
		if got := pythonVersion(version); got != want {
			t.Errorf("%s is %s, want %s", version, got, want)
		}
	}
}

func TestLinksOfAReadmeLeadToTheRepository(t *testing.T) {
	const text = "[a](#a), [b](../../../docs/b.md#c), [d](https://example.org), [e](LICENSE)"
	const want = "[a](#a), [b](https://github.com/taskengine/taskengine/blob/v1.2.3/docs/b.md#c), [d](https://example.org), " +
		"[e](https://github.com/taskengine/taskengine/blob/v1.2.3/plugins/sdk/node/LICENSE)"
	if got := absolute(text, "plugins/sdk/node", "v1.2.3"); got != want {
		t.Errorf("the text is %s", got)
	}
}

func TestThePomFollowsTheRulesOfMavenCentral(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(stamped(t, "v1.2.3"), "plugins/sdk/java/pom.xml"))
	if err != nil {
		t.Fatal(err)
	}
	// The dependencies of the repository have their versions in properties. Maven writes them out.
	good := strings.NewReplacer("${grpc.version}", "1", "${netty.version}", "1", "${protobuf.version}", "1", "${opentelemetry.version}", "1").Replace(string(text))
	if err := checkPom(withoutBuild([]byte(good)), "1.2.3"); err != nil {
		t.Error(err)
	}
	for _, part := range []string{"build", "profiles"} {
		if strings.Contains(string(withoutBuild([]byte(good))), "<"+part+">") {
			t.Errorf("the published pom.xml has the part %s", part)
		}
	}
	for before, after := range map[string]string{
		"<version>1.2.3</version>":         "<version>1.2.3-SNAPSHOT</version>",
		"<name>taskengine handlers":        "<name/><x>taskengine handlers",
		"<description>":                    "<description>${",
		"<url>https://www.apache.org":      "<url/><x>https://www.apache.org",
		"<developers>":                     "<developers/><x>",
		"<connection>":                     "<connection/><x>",
		"<version>2.0.20</version>":        "",
		"<version>1.0.0</version>":         "<version>[1.0,2.0)</version>",
		"\n  <properties>":                 "\n  <repositories><repository><url>mine</url></repository></repositories>\n  <properties>",
		"<groupId>io.github.taskengine</g": "<groupId></g",
	} {
		bad := good
		if at := strings.Index(good, before); at >= 0 {
			rest := good[at+len(before):]
			if strings.Contains(after, "<x>") { // the part is closed under its new name
				tag := before[:strings.Index(before, ">")+1]
				rest = strings.Replace(rest, "</"+tag[1:], "</x>", 1)
			}
			bad = good[:at] + after + rest
		}
		if err := checkPom([]byte(bad), "1.2.3"); bad == good || err == nil || strings.Contains(err.Error(), "syntax") {
			t.Errorf("with %q for %q the answer is %v", after, before, err)
		}
	}
}

func zipped(t *testing.T, date time.Time, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range names {
		to, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store, Modified: date})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "/") {
			_, err = io.WriteString(to, name)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func tarred(t *testing.T, date time.Time, user string, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range names {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o664, Size: int64(len(name)), ModTime: date, Uname: user, Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestPackagesThatArePackedAgainDependOnTheirFilesAlone(t *testing.T) {
	later := date.Add(time.Hour)
	one := made(t, func(w io.Writer) error { return repackTar(w, tarred(t, date, "ann", "b", "a"), date) })
	two := made(t, func(w io.Writer) error { return repackTar(w, tarred(t, later, "ben", "a", "b"), date) })
	if !bytes.Equal(one, two) {
		t.Error("archives of the same files differ")
	}
	files, content, _ := unpacked(t, plain(t, one))
	if files["a"].Mode != 0o644 || string(content["b"]) != "b" {
		t.Errorf("the archive has %+v", files["a"])
	}
	one = made(t, func(w io.Writer) error {
		return repackZip(w, zipped(t, date, "META-INF/MANIFEST.MF", "a/", "a/b"), date)
	})
	two = made(t, func(w io.Writer) error { return repackZip(w, zipped(t, later, "META-INF/MANIFEST.MF", "a/b"), date) })
	if !bytes.Equal(one, two) {
		t.Error("zip archives of the same files differ")
	}
}

func TestAPackageThatLacksAPartIsRefused(t *testing.T) {
	dir := t.TempDir()
	const info = "taskengine_handler-1.2.3.dist-info/"
	for name, archive := range map[string][]byte{
		"taskengine_handler-1.2.3-py3-none-any.whl": zipped(t, date, info+"METADATA", info+"RECORD", "tests/a.py"),
		"taskengine_handler-1.2.3.tar.gz":           tarred(t, date, "", "taskengine_handler-1.2.3/PKG-INFO"),
		"taskengine-handler-1.2.3.tgz":              tarred(t, date, "", "package/LICENSE"),
		"taskengine-handler-1.2.3.jar":              zipped(t, date, "META-INF/MANIFEST.MF"),
		"taskengine-handler-1.2.3-sources.jar":      zipped(t, date, "META-INF/MANIFEST.MF"),
		"taskengine-handler-1.2.3-javadoc.jar":      zipped(t, date, "META-INF/MANIFEST.MF"),
		"taskengine-handler-1.2.3.pom":              []byte("<project/>"),
	} {
		write(t, filepath.Join(dir, name), string(archive))
	}
	for name, check := range map[string]struct {
		of   func(dir, version string) error
		want []string
	}{
		"python": {checkPython, []string{"has no types", "tests/a.py, which is no part", "has no " + info + "licenses/LICENSE", `"License-Expression: Apache-2.0"`}},
		"node":   {checkNode, []string{"package.json"}},
		"java":   {checkJava, []string{"META-INF/LICENSE.txt", "index.html", "Handlers.java", "developers"}},
	} {
		err := check.of(dir, "1.2.3")
		for _, want := range check.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the problems are %v, want %s", name, err, want)
			}
		}
	}
}

func TestTheArchiveForMavenCentralIsSigned(t *testing.T) {
	home, err := os.MkdirTemp("", "gpg") // the path of a socket has few letters
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	t.Setenv("GNUPGHOME", home)
	const key = "releases@example.org"
	gpg := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("gpg", append([]string{"--batch"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("gpg %v: %v\n%s", args, err, out)
		}
	}
	gpg("--pinentry-mode", "loopback", "--passphrase", "", "--quick-gen-key", key, "ed25519", "sign", "0")
	defer func() { _ = exec.Command("gpgconf", "--kill", "gpg-agent").Run() }()
	dir := t.TempDir()
	for _, end := range append([]string{".pom"}, javaJars...) {
		write(t, filepath.Join(dir, "taskengine-handler-1.2.3"+end), "content of "+end)
	}
	if err := (&repository{version: "v1.2.3", date: date}).bundle(dir, key); err != nil {
		t.Fatal(err)
	}
	files, err := filesOf(filepath.Join(dir, "taskengine-handler-1.2.3-maven.zip"))
	if err != nil || len(files) != 16 {
		t.Fatalf("the archive has %d files: %v", len(files), err)
	}
	base := "io/github/taskengine/taskengine-handler/1.2.3/taskengine-handler-1.2.3.jar"
	write(t, filepath.Join(dir, "jar"), string(files[base]))
	write(t, filepath.Join(dir, "jar.asc"), string(files[base+".asc"]))
	gpg("--verify", filepath.Join(dir, "jar.asc"), filepath.Join(dir, "jar"))
	if len(files[base+".md5"]) != 32 || len(files[base+".sha1"]) != 40 {
		t.Errorf("the checksums are %s and %s", files[base+".md5"], files[base+".sha1"])
	}
}
