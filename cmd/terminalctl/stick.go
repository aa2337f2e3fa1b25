package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/configs"
	"grattoir/sync/ledger"
	"grattoir/sync/uplink"
	"grattoir/sync/wire"
	"grattoir/validate/manifest"
)

func stickCommand() *cobra.Command {
	return cli.Group("stick", "Take from a USB stick what would come over the network", stickImportCommand())
}

// stickAnswer is what came of an import.
type stickAnswer struct {
	OK       bool            `json:"ok"`
	Snapshot int64           `json:"snapshot"`
	Issued   string          `json:"issued"`
	Taken    []string        `json:"taken"`   // SHA-256 of the blocks that are new here
	Missing  []missingAnswer `json:"missing"` // blocks that are listed and not here
	Peppers  int             `json:"peppers"` // of this terminal
	Policies []string        `json:"policies"`
	Daemon   bool            `json:"daemon"` // whether the running daemon was told
	Problems []string        `json:"problems"`
}

type missingAnswer struct {
	GameCode  string `json:"game_code"`
	FirstPack uint32 `json:"first_pack"`
	LastPack  uint32 `json:"last_pack"`
	Own       bool   `json:"own"`
	Why       string `json:"why"`
}

func stickImportCommand() *cobra.Command {
	var config, socket string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "import DIR",
		Short: "Verify and take the snapshot, blocks, peppers and policies of a stick",
		Long: `Take what central stick make wrote: everything is verified as if it came over the network,
against the keys of this terminal's enrolment. An older snapshot than the one here is refused.
Blocks are taken by the same order of wishes and within the same quota; what was interrupted
goes on at the next call. The daemon may run, and is told; one that does not takes it at its
next start.

Exit status 3: it was taken, but for what is named.`,
		Example: `  terminalctl stick import /media/usb/grattoir`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := configs.LoadTerminal(config)
			if err != nil {
				return cli.Exit(cli.Usage, err)
			}
			id, err := uplink.LoadIdentity(c.Identity())
			if err != nil {
				return fmt.Errorf("a stick is for terminals that are enrolled: %w", err)
			}
			if socket == "" {
				socket = c.Socket
			}
			a, err := importStick(cmd.Context(), args[0], c, id)
			if err != nil {
				return err
			}
			if _, err := newClient(socket).Rescan(cmd.Context()); err == nil {
				a.Daemon = true
			}
			a.OK = len(a.Problems) == 0
			if asJSON {
				err = cli.JSON(cmd.OutOrStdout(), a)
			} else {
				err = a.print(cmd.OutOrStdout())
			}
			if err != nil || a.OK {
				return err
			}
			return cli.Exit(cli.Person, errors.New(a.Problems[0]))
		},
	}
	cmd.Flags().StringVar(&config, "config", defaultConfig, "terminald's configuration `file`")
	cmd.Flags().StringVar(&socket, "socket", os.Getenv("GRATTOIR_SOCKET"), "the daemon's `socket`, where it is not the configuration's (also GRATTOIR_SOCKET)")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// importStick takes the blocks, then what belongs to them. What is wrong with one part
// is named and stops no other; a stick whose snapshot does not verify stops all.
func importStick(ctx context.Context, dir string, c configs.Terminal, id uplink.Identity) (stickAnswer, error) {
	a := stickAnswer{Taken: []string{}, Missing: []missingAnswer{}, Policies: []string{}, Problems: []string{}}
	problem := func(err error) {
		if err != nil {
			a.Problems = append(a.Problems, err.Error())
		}
	}
	o := uplink.StickOptions{Dir: dir, Identity: id, Blocks: uplink.BlockStore{Dir: c.Manifests(), Quota: c.QuotaMB << 20, Reserve: c.ReserveMB << 20}, Floor: id.Issued(),
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Progress: func(b wire.Block) {
			fmt.Fprintf(os.Stderr, "block %.8s, game code %s, %d bytes\n", b.SHA256, b.GameCode, b.Size)
		}}
	var err error
	if o.Packs, err = ownPacks(ctx, c.Ledger()); err != nil {
		problem(fmt.Errorf("which packs are this terminal's is not known, so they do not come first: %w", err))
	}
	r, err := uplink.TakeStick(ctx, o)
	if err != nil && r.Snapshot == 0 {
		return a, err
	}
	problem(err)
	a.Snapshot, a.Issued = r.Snapshot, wire.FormatTime(r.Issued)
	for _, b := range r.Taken {
		a.Taken = append(a.Taken, b.SHA256)
	}
	for _, m := range r.Missing {
		a.Missing = append(a.Missing, missingAnswer{m.GameCode, m.FirstPack, m.LastPack, m.Own, string(m.Why)})
	}
	a.Peppers, err = stickPeppers(filepath.Join(dir, wire.StickPeppers), c.Manifests(), id.Terminal)
	problem(err)
	ring, err := manifest.NewKeys(1, id.SealKeys...)
	if err == nil {
		a.Policies, err = stickPolicies(filepath.Join(dir, wire.StickPolicies), c.Policies(), ring)
	}
	problem(err)
	return a, nil
}

// ownPacks reads the ledger beside the daemon; none is no fault.
func ownPacks(ctx context.Context, path string) ([]wire.PackItem, error) {
	i, err := ledger.Inspect(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	packs, err := i.OwnPacks(ctx)
	return packs, errors.Join(err, i.Close())
}

// maxOnStick bounds how many files of one kind are looked at.
const maxOnStick = 5000

// stickFiles lists a folder of the stick, at most so many; one that is absent is empty.
func stickFiles(dir, suffix string) (paths []string, err error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range list {
		if e.Type().IsRegular() && filepath.Ext(e.Name()) == suffix && len(paths) < maxOnStick {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, err
}

// stickPeppers keeps those that are sealed to this terminal. A pepper proves itself
// against its block's header when it is opened.
func stickPeppers(from, to, terminal string) (n int, err error) {
	paths, err := stickFiles(from, ".pepper")
	for _, path := range paths {
		text, failed := cli.ReadBounded(path, wire.MaxSealedPepper)
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		sealed, failed := wire.ParseSealedPepper(string(text))
		switch {
		case failed != nil:
			err = errors.Join(err, fmt.Errorf("%s: %w", path, failed))
			continue
		case sealed.Terminal != terminal:
			continue
		}
		if failed := uplink.WriteWhole(filepath.Join(to, sealed.Block.String()+".pepper"), text); failed != nil {
			return n, errors.Join(err, failed)
		}
		n++
	}
	return n, err
}

func stickPolicies(from, to string, ring manifest.Keys) (versions []string, err error) {
	versions = []string{}
	paths, err := stickFiles(from, ".policy")
	if len(paths) > 0 {
		err = errors.Join(err, os.MkdirAll(to, 0o750))
	}
	for _, path := range paths {
		p, failed := importPolicy(path, to, ring)
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		versions = append(versions, p.Version)
	}
	return versions, err
}

func (a stickAnswer) print(w io.Writer) error {
	fmt.Fprintf(w, "snapshot %d of %s\n%d blocks taken, %d peppers, %d policies\n", a.Snapshot, a.Issued, len(a.Taken), a.Peppers, len(a.Policies))
	for _, m := range a.Missing {
		own := ""
		if m.Own {
			own = ", of this terminal's packs"
		}
		why := "no room within quota_mb"
		switch uplink.Why(m.Why) {
		case uplink.WhyComing:
			why = "not whole on this stick"
		case uplink.WhyDisk:
			why = "no room on the disk"
		case uplink.WhyProgram:
			why = "needs a newer program"
		}
		fmt.Fprintf(w, "not here: game code %s, packs %d-%d%s: %s\n", m.GameCode, m.FirstPack, m.LastPack, own, why)
	}
	if !a.Daemon {
		fmt.Fprintln(w, "the daemon was not told: it takes it at its next start")
	}
	for _, p := range a.Problems {
		fmt.Fprintf(w, "problem: %s\n", p)
	}
	return nil
}
