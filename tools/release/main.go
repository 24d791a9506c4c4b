// Release makes the files of a version from the commit that is checked out: programs in archives and packages, images for
// containers, the packages for handlers and clients in other languages, bills of materials, notes, checksums and a signature. The same commit and the same versions of the compilers give the same bytes.
//
//	go -C tools run ./release -version v1.2.3 [-key FILE] [-gpg KEY] [-check] $PWD
//	go -C tools run ./release -image FILE -program FILE [-platform linux/amd64] $PWD
//
// The second form packs a program that exists into an image, for tests.
package main

import (
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// options are the arguments of the command.
type options struct {
	dir       string // the repository
	version   string
	out       string
	key       string
	platforms string
	languages string
	gpg       string
	check     bool

	image, program string
}

func main() {
	var o options
	flag.StringVar(&o.version, "version", "", "the `version`, such as v1.2.3")
	flag.StringVar(&o.out, "out", "", "the `folder` of the files, which must not exist (default dist/VERSION)")
	flag.StringVar(&o.key, "key", "", "`file` of the SSH key that signs the checksums: the private key, or the public key of one in an agent")
	flag.StringVar(&o.platforms, "platform", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "the `platforms`, with commas between them")
	flag.StringVar(&o.languages, "sdks", "python,node,java", "the `languages` with packages for handlers and clients, with commas between them")
	flag.StringVar(&o.gpg, "gpg", "", "the `key` of GnuPG that signs the package for Java, as Maven Central demands")
	flag.BoolVar(&o.check, "check", false, "make everything twice, in different folders and without earlier results of the compiler, and compare")
	flag.StringVar(&o.image, "image", "", "only pack -program into an image, and write it to this `file`")
	flag.StringVar(&o.program, "program", "", "`file` of the program for -image")
	flag.Parse()
	o.dir = flag.Arg(0)
	if flag.NArg() != 1 || !filepath.IsAbs(o.dir) {
		fmt.Fprintln(os.Stderr, "usage: release -version VERSION [flags] ABSOLUTE-DIRECTORY")
		os.Exit(2)
	}
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	platforms, err := parsePlatforms(o.platforms)
	if err != nil {
		return err
	}
	languages, err := parseLanguages(o.languages)
	if err != nil {
		return err
	}
	if o.image != "" {
		return packProgram(o.image, o.program, platforms[0])
	}
	r, err := openRepository(o.dir, o.version)
	if err != nil {
		return err
	}
	if o.out == "" {
		o.out = filepath.Join(o.dir, "dist", o.version)
	}
	if _, err := os.Stat(o.out); err == nil {
		return fmt.Errorf("%s exists: remove it, or name another folder with -out", o.out)
	}
	notes, err := r.notes()
	if err != nil {
		return err
	}
	// The folder appears when it is complete.
	if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
		return err
	}
	partial, err := os.MkdirTemp(filepath.Dir(o.out), ".partial-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(partial)
	if err := os.Chmod(partial, 0o755); err != nil {
		return err
	}
	if err := r.makeFiles(partial, content{platforms, languages, notes}, o.check); err != nil {
		return err
	}
	if err := sign(partial, o.key); err != nil {
		return err
	}
	if err := r.bundle(partial, o.gpg); err != nil {
		return err
	}
	if err := os.Rename(partial, o.out); err != nil {
		return err
	}
	fmt.Printf("%s %s is in %s\n", program, r.version, o.out)
	if o.key == "" {
		fmt.Println("It is not signed. -key FILE (make: KEY=FILE) signs it.")
	}
	return nil
}

// content says which files a version has.
type content struct {
	platforms []platform
	sdks      []sdk
	notes     []byte
}

// makeFiles makes all files of the version but the signature in dir. With check it makes them twice and compares.
func (r *repository) makeFiles(dir string, c content, check bool) error {
	if err := r.makeOnce(dir, "", c, check); err != nil || !check {
		return err
	}
	again, err := os.MkdirTemp("", "release-again-")
	if err != nil {
		return err
	}
	defer removeTree(again)
	other := filepath.Join(again, "files")
	if err := os.Mkdir(other, 0o755); err != nil {
		return err
	}
	if err := r.makeOnce(other, filepath.Join(again, "cache"), c, false); err != nil {
		return err
	}
	return compareFolders(dir, other)
}

// makeOnce makes the files in dir with the compiler's cache in a folder; "" is the usual one. With lint the tools of the registries look at the
// packages of the languages.
func (r *repository) makeOnce(dir, cache string, c content, lint bool) error {
	source, err := r.checkOut()
	if err != nil {
		return err
	}
	defer removeTree(source)
	fmt.Printf("%s for this machine, which writes the manual\n", program)
	x, err := extrasOf(source, cache)
	if err != nil {
		return err
	}
	for _, p := range c.platforms {
		fmt.Printf("%s for %s\n", program, p)
		if err := r.makePlatform(dir, source, cache, p, x); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	if err := r.makeSDKs(dir, c.sdks, lint); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "NOTES.md"), c.notes, 0o644); err != nil {
		return err
	}
	return writeSums(dir)
}

// makePlatform makes the archive, the bill of materials and, for Linux, the image and the packages of one platform.
func (r *repository) makePlatform(dir, source, cache string, p platform, x *extras) error {
	built := p.builtIn(source)
	if err := build(source, built, cache, p); err != nil {
		return err
	}
	if err := r.checkBuild(built); err != nil {
		return err
	}
	binary, err := os.ReadFile(built)
	if err != nil {
		return err
	}
	documents, err := documentsOf(source, built, p)
	if err != nil {
		return err
	}
	base := filepath.Join(dir, r.fileName(p))
	archive := slices.Concat([]file{{name: program, mode: 0o755, content: binary}}, documents, x.inArchive())
	if err := writeFile(base+".tar.gz", func(w *os.File) error { return writeArchive(w, archive, r.date, gzip.BestCompression) }); err != nil {
		return err
	}
	bill, err := billOf(built, binary, r, p)
	if err != nil {
		return err
	}
	if err := os.WriteFile(base+".cdx.json", bill, 0o644); err != nil {
		return err
	}
	if p.system != "linux" {
		return nil
	}
	i := image{
		platform: p, version: r.version, commit: r.commit, date: r.date, program: binary, documents: documents, level: gzip.BestCompression,
	}
	if err := writeFile(base+".oci.tar", func(w *os.File) error { return i.write(w) }); err != nil {
		return err
	}
	return r.makePackages(base, source, binary, documents, p, x)
}

// makePackages makes the packages of one platform. Debian and the distributions with rpm have different folders for zsh.
func (r *repository) makePackages(base, source string, binary []byte, documents []file, p platform, x *extras) error {
	for _, kind := range []struct {
		name, zsh string
		write     func(*pack, io.Writer) error
	}{
		{".deb", "usr/share/zsh/vendor-completions/", (*pack).writeDeb},
		{".rpm", "usr/share/zsh/site-functions/", (*pack).writeRPM},
	} {
		files, err := packageFiles(source, binary, documents, x, kind.zsh)
		if err != nil {
			return err
		}
		made := &pack{platform: p, version: r.version, date: r.date, files: files, level: gzip.BestCompression}
		if err := writeFile(base+kind.name, func(w *os.File) error { return kind.write(made, w) }); err != nil {
			return err
		}
	}
	return nil
}

// fileName is the name of the files for a platform without its last part.
func (r *repository) fileName(p platform) string {
	return strings.Join([]string{program, strings.TrimPrefix(r.version, "v"), p.system, p.architecture}, "_")
}

// writeFile makes a file.
func writeFile(path string, write func(*os.File) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
