// Command image builds the terminals' card images and their updates from one recipe:
// firmware/image. It is for the release's machine, a Debian 12 where it runs as root;
// `make image` calls it. docs/image.md tells what comes out.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"grattoir/cmd/internal/cli"
	"grattoir/firmware/image"
)

func main() { os.Exit(cli.Main(command())) }

// options are the flags.
type options struct {
	boards, provisioning, updaters  []string
	version, out, cache, mirror     string
	cert, certKey, root, key, clock string
	pinned, json                    bool
}

func command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Build the card images of the terminals, and the bundles that update them",
		Long: `Build, for each board: NAME-VERSION.img, the card byte for byte; with --key also the compressed
and signed image that "terminalctl flash" writes; and NAME-VERSION.raucb, the update.
Run it in the checkout, as root, on Debian 12. What it took from the network stays in
the cache, and a second build takes seconds.

With no certificate given, bundles are signed under a development root that is made in
OUT/development-keys: good for tests, and for no shop.`,
		Example: `  image --board virt
  image --board pi --version 1.4.0 --key lottery.key --cert codesign.pem --cert-key codesign.key --root root.pem --provisioning provisioning.pub --pinned`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.boards, "board", []string{"pi", "virt"}, "`boards` to build for")
	f.StringVar(&o.version, "version", "", "`version` of the release (default: as git describes the checkout)")
	f.StringVar(&o.out, "out", "image-out", "`folder` of what is built")
	f.StringVar(&o.cache, "cache", "", "`folder` of what is kept for the next build (default: grattoir-image in the user's cache)")
	f.StringVar(&o.mirror, "mirror", "http://deb.debian.org", "Debian's archive: the `URL` above debian/ and debian-security/")
	f.StringVar(&o.key, "key", "", "`file` of the key that signs the image's manifest; without, the image is not packed")
	f.StringVar(&o.cert, "cert", "", "`file` of the certificate that signs bundles")
	f.StringVar(&o.certKey, "cert-key", "", "`file` of its key")
	f.StringVar(&o.root, "root", "", "`file` of the root certificate that terminals trust")
	f.StringSliceVar(&o.provisioning, "provisioning", nil, "`files` of the public keys that may provision a terminal")
	f.StringSliceVar(&o.updaters, "update-key", nil, "`files` of the public keys that may release updates; without, the image has no update agent")
	f.StringVar(&o.clock, "clock", "", "the clock's beginning, `RFC 3339` (default: the commit's time)")
	f.BoolVar(&o.pinned, "pinned", false, "packages other than those of the list in the checkout are an error")
	f.BoolVar(&o.json, "json", false, "print what was built as JSON")
	return cmd
}

func (o options) run(ctx context.Context, out io.Writer) error {
	if os.Getuid() != 0 {
		return cli.Usagef("an image is built by root, since files in it belong to several users: sudo make image")
	}
	b, release, err := o.prepare(ctx)
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(o.out, "build.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	b.Log = log
	var all []image.Built
	for _, name := range o.boards {
		board, err := image.FindBoard(name)
		if err != nil {
			return cli.Exit(cli.Usage, err)
		}
		built, err := b.Build(ctx, board, release, image.Change{})
		if err != nil {
			return fmt.Errorf("board %s: %w\n%s has all that was done", name, err, log.Name())
		}
		all = append(all, built)
	}
	if o.json {
		return cli.JSON(out, all)
	}
	for _, built := range all {
		fmt.Fprintf(out, "%s %s\n  card    %s\n", built.Board, built.Version, built.Raw)
		if built.Image != "" {
			fmt.Fprintf(out, "  image   %s\n", built.Image)
		}
		fmt.Fprintf(out, "  update  %s\n  slot    sha256 %s\n", built.Bundle, built.SHA256)
	}
	return nil
}

// prepare makes the builder, the programs and the keys.
func (o *options) prepare(ctx context.Context) (image.Builder, image.Release, error) {
	none := func(err error) (image.Builder, image.Release, error) { return image.Builder{}, image.Release{}, err }
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return none(err)
	}
	if o.cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return none(fmt.Errorf("%w: name a folder with --cache", err))
		}
		o.cache = filepath.Join(dir, "grattoir-image")
	}
	release, err := o.release(ctx)
	if err != nil {
		return none(err)
	}
	b := image.Builder{Source: ".", Cache: o.cache, Out: o.out, Mirror: strings.TrimSuffix(o.mirror, "/"), Provided: o.provisioning, Updaters: o.updaters, Pinned: o.pinned,
		Tell: func(line string) { fmt.Fprintln(os.Stderr, "image:", line) }}
	if b.Signing, err = o.signing(); err != nil {
		return none(err)
	}
	if o.key != "" {
		signer, err := readSigner(o.key)
		if err != nil {
			return none(err)
		}
		b.By = []note.Signer{signer}
	}
	b.Programs, b.Init, err = programs(ctx, filepath.Join(o.out, "programs"), release.Version)
	return b, release, err
}

func (o options) release(ctx context.Context) (image.Release, error) {
	r := image.Release{Version: o.version}
	if r.Version == "" {
		text, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
		if err != nil {
			return r, fmt.Errorf("git describe: %w: name the version with --version", err)
		}
		r.Version = strings.TrimSpace(string(text))
	}
	if o.clock != "" {
		at, err := time.Parse(time.RFC3339, o.clock)
		if err != nil {
			return r, cli.Usagef("--clock: %v", err)
		}
		r.Built = at.UTC()
		return r, nil
	}
	text, err := exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct").Output()
	if err != nil {
		return r, fmt.Errorf("git log: %w: name the clock's beginning with --clock", err)
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	r.Built = time.Unix(seconds, 0).UTC()
	return r, err
}

func (o options) signing() (image.Signing, error) {
	given := image.Signing{Root: o.root, Cert: o.cert, Key: o.certKey}
	switch {
	case given == (image.Signing{}):
		return image.DevelopmentKeys(filepath.Join(o.out, "development-keys"), time.Now())
	case o.root == "" || (o.cert == "") != (o.certKey == ""):
		return given, cli.Usagef("--root goes with --cert and --cert-key, or alone where the bundle is signed elsewhere")
	}
	return given, nil
}

// programs builds what runs on the terminal: linked statically, so that nothing of the
// image's libraries matters.
func programs(ctx context.Context, dir, version string) (folder, init string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", err
	}
	run := func(env []string, args ...string) error {
		cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-trimpath", "-buildvcs=false"}, args...)...)
		cmd.Env = append(append(os.Environ(), "GOOS=linux", "GOARCH=arm64"), env...)
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go build %s: %w\n%s", strings.Join(args, " "), err, text)
		}
		return nil
	}
	err = run([]string{"CGO_ENABLED=1", "CC=aarch64-linux-gnu-gcc"}, "-tags", "sqlite_omit_load_extension,osusergo,netgo",
		"-ldflags", "-X main.buildVersion="+version+" -s -w -buildid= -linkmode external -extldflags -static", "-o", dir+"/", "./cmd/terminald", "./cmd/terminalctl")
	if err != nil {
		return "", "", err
	}
	init = filepath.Join(dir, "init")
	return dir, init, run([]string{"CGO_ENABLED=0"}, "-ldflags", "-s -w -buildid=", "-o", init, "./firmware/image/init")
}

func readSigner(path string) (note.Signer, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	signer, err := note.NewSigner(strings.TrimSpace(string(text)))
	if err != nil { // its message may quote the key
		return nil, fmt.Errorf("%s holds no secret signing key in note format: make one with central key new", path)
	}
	return signer, nil
}
