package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"grattoir/cmd/internal/cli"
	"grattoir/configs"
	"grattoir/firmware/flash"
	"grattoir/firmware/provision"
	"grattoir/sync/uplink"
	"grattoir/validate/manifest"
)

// Where a provisioned terminal has its things; docs/provisioning.md is the contract.
const (
	provisionKeys = "/usr/lib/grattoir/provisioning"
	runningCard   = "/dev/grattoir/card"
	dataPartition = "/data"
)

func provisionWriteCommand() *cobra.Command {
	var system flash.System
	var keys []string
	var card, image, dir string
	var unmount, asJSON bool
	cmd := &cobra.Command{
		Use:   "write FILE --key PUB --card SERIAL|--image FILE.img|--dir MOUNTED",
		Short: "Put a provisioning file onto a flashed card",
		Long: `Verify a provisioning file and put it into the slot of a flashed card, outside every file
system: nothing of the card is mounted. The card is named by its serial, as for flash write,
and only removable ones are taken. With --image it is the file of a card, for an emulator; with
--dir the folder where the card's data partition is mounted. What was written is read back.

Exit status: 0 done, 4 refused before anything was written, 1 failed, 2 wrong usage.`,
		Example: `  sudo terminalctl provision write shop-0042.provision --key keys/provisioning.pub --card 0x1a2b3c4d
  terminalctl provision write shop-0042.provision --key keys/provisioning.pub --image card.img`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if n := boolCount(card != "", image != "", dir != ""); n != 1 {
				return cli.Usagef("name the card by one of --card SERIAL (terminalctl flash list), --image FILE.img, --dir MOUNTED")
			}
			sheet, _, signed, err := readSheet(args[0], keys)
			if err != nil {
				return err
			}
			where := card + image + dir
			switch {
			case dir != "":
				err = provision.Drop(dir, signed)
			case image != "":
				err = writeImage(image, signed)
			default:
				err = writeCard(system, card, flash.Wish{Write: true, Unmount: unmount}, signed)
			}
			if err != nil {
				return refuseSlot(err)
			}
			if asJSON {
				return cli.JSON(cmd.OutOrStdout(), made{sheet.Terminal, sheet.Serial, where, sheet.Mark()})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: becomes %s at its first start; then, on the terminal: terminalctl provision verify\n", cli.Line(where), sheet.Terminal)
			return err
		},
	}
	cmd.Flags().StringArrayVar(&keys, "key", nil, "public key that may provision, a `file`; may be given several times")
	cmd.Flags().StringVar(&card, "card", "", "the card's `serial`")
	cmd.Flags().StringVar(&image, "image", "", "`file` of a card, for an emulator")
	cmd.Flags().StringVar(&dir, "dir", "", "`folder` where the card's data partition is mounted")
	cmd.Flags().BoolVar(&unmount, "unmount", false, "unmount the card's file systems first")
	systemFlag(cmd, &system)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func boolCount(list ...bool) (n int) {
	for _, b := range list {
		if b {
			n++
		}
	}
	return n
}

func writeCard(system flash.System, serial string, wish flash.Wish, signed []byte) (err error) {
	drive, err := system.Choose(serial, wish)
	if err != nil {
		return err
	}
	m, err := system.Open(drive, wish)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	return provision.WriteSlot(m, signed)
}

func writeImage(path string, signed []byte) (err error) {
	if _, err := os.Stat(path); err != nil { // OpenFile would make it
		return err
	}
	m, err := flash.OpenFile(path, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	return provision.WriteSlot(m, signed)
}

// refuseSlot gives what a card cannot take its exit code.
func refuseSlot(err error) error {
	if errors.Is(err, provision.ErrSlot) {
		return cli.Exit(cli.Refused, err)
	}
	return refuseCard(err)
}

// applying is the terminal that provision apply works on.
type applying struct {
	config, data, networkd, supplicant string
	keys, card, drop                   string
	host                               bool
}

func (a *applying) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.config, "config", defaultConfig, "terminald's configuration, the `file` to write")
	cmd.Flags().StringVar(&a.data, "data", "/var/lib/grattoir", "the terminal's data `folder`; what is written there belongs to its owner")
	cmd.Flags().StringVar(&a.networkd, "networkd", "/etc/systemd/network", "`folder` of systemd-networkd's units")
	cmd.Flags().StringVar(&a.supplicant, "supplicant", "/etc/wpa_supplicant", "`folder` of wpa_supplicant's configurations")
	cmd.Flags().StringVar(&a.keys, "keys", provisionKeys, "`folder` of public keys that may provision")
	cmd.Flags().StringVar(&a.card, "card", runningCard, "the card with the slot, a `device` or the file of one")
	cmd.Flags().StringVar(&a.drop, "drop", filepath.Join(dataPartition, provision.DropFile), "`file` that provision write --dir has left")
	cmd.Flags().BoolVar(&a.host, "set-host", true, "give the system the terminal's name")
}

type applyAnswer struct {
	Terminal string `json:"terminal"` // "" for a card that is nobody's yet
	Serial   int64  `json:"serial"`
	Changed  bool   `json:"changed"` // by this call
	Wiped    bool   `json:"wiped"`   // a file was found and taken off the card
}

func provisionApplyCommand() *cobra.Command {
	var a applying
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Put the card's provisioning file into force; run at every start of a terminal",
		Long: `Look for a provisioning file in the card's slot and on its data partition, verify it under
the image's keys, and write terminald's configuration, the network's files and the identity.
Then the file is wiped off the card. It is done once: the same file again changes nothing,
another one must be for the same terminal and have a higher serial. With no file it only gives
the system its name. The service grattoir-provision runs it as root before terminald and the
network start.

Exit status: 0 done or nothing to do, 4 a file was refused and stays where it is, 1 failed.`,
		Example: `  terminalctl provision apply
  terminalctl provision apply --card card.img --keys keys --config etc/terminald.toml --data data --networkd net --supplicant wpa --drop none --set-host=false`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			answer, err := a.run(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return cli.JSON(cmd.OutOrStdout(), answer)
			}
			text := "this card is nobody's terminal yet: terminalctl provision write"
			switch {
			case answer.Changed:
				text = fmt.Sprintf("this is %s now, by the provisioning file with serial %d", answer.Terminal, answer.Serial)
			case answer.Terminal != "":
				text = fmt.Sprintf("this is %s, by the provisioning file with serial %d", answer.Terminal, answer.Serial)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		},
	}
	a.flags(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// cardNote is a note on the card, and how it is taken off.
type cardNote struct {
	signed []byte
	wipe   func() error
}

func (a applying) run(ctx context.Context) (answer applyAnswer, err error) {
	notes, done, err := a.look()
	if err != nil {
		return answer, err
	}
	defer func() { err = errors.Join(err, done()) }()
	if len(notes) > 0 {
		ring, err := a.ring()
		if err != nil {
			return answer, err
		}
		target := a.target()
		for _, n := range notes {
			_, changed, err := target.Apply(n.signed, ring)
			if err != nil {
				return answer, refuseSheet(err)
			}
			answer.Changed = answer.Changed || changed
			if err := n.wipe(); err != nil {
				return answer, fmt.Errorf("the file is in force, and could not be wiped off the card: %w", err)
			}
			answer.Wiped = true
		}
	}
	r, err := provision.LoadRecord(a.config)
	if errors.Is(err, provision.ErrEmpty) {
		return answer, nil
	}
	if err != nil {
		return answer, err
	}
	answer.Terminal, answer.Serial = r.Sheet.Terminal, r.Sheet.Serial
	if a.host {
		if err := unix.Sethostname([]byte(provision.HostName(r.Sheet.Terminal))); err != nil {
			return answer, fmt.Errorf("the system's name: %w", err)
		}
	}
	return answer, nil
}

// look finds the notes on the card: the dropped one first, then the slot's.
func (a applying) look() (notes []cardNote, done func() error, err error) {
	done = func() error { return nil }
	text, err := cli.ReadBounded(a.drop, provision.MaxNote)
	switch {
	case err == nil:
		notes = append(notes, cardNote{text, func() error { return provision.Wipe(a.drop) }})
	case !errors.Is(err, os.ErrNotExist):
		return nil, done, err
	}
	card, err := provision.OpenRunning(a.card)
	if errors.Is(err, os.ErrNotExist) {
		return notes, done, nil // no such link on this machine: a card is provisioned by --dir there
	}
	if err != nil {
		return nil, done, err
	}
	text, err = provision.ReadSlot(card)
	switch {
	case err == nil:
		notes = append(notes, cardNote{text, func() error { return provision.WipeSlot(card) }})
	case !errors.Is(err, provision.ErrEmpty):
		return nil, done, errors.Join(refuseSlot(err), card.Close())
	}
	return notes, card.Close, nil
}

// ring are the keys of the image that may provision.
func (a applying) ring() (manifest.Keys, error) {
	list, err := filepath.Glob(filepath.Join(a.keys, "*.pub"))
	if err != nil {
		return manifest.Keys{}, err
	}
	if len(list) == 0 {
		return manifest.Keys{}, cli.Exit(cli.Refused, fmt.Errorf("no key in %s may provision: the image was built without one", a.keys))
	}
	return readKeys(list)
}

func (a applying) target() provision.Target {
	identity := filepath.Join(a.data, identityFolder)
	return provision.Target{Config: a.config, Networkd: a.networkd, Supplicant: a.supplicant, Now: time.Now,
		Check: func(config, terminal string) error {
			c, err := configs.ParseTerminal("terminald.toml", []byte(config))
			if err == nil && c.Name != terminal {
				err = fmt.Errorf("it is of %q", c.Name)
			}
			return err
		},
		Waiting: func() bool {
			id, err := uplink.LoadIdentity(identity)
			return err == nil && id.Waiting()
		},
		Enrol: func(file string, again bool) error {
			_, err := uplink.EnrolFromFile(uplink.FileOptions{Text: []byte(file), Dir: identity, Again: again})
			return errors.Join(err, give(a.data, identity))
		}}
}

// give makes a folder below another one belong to that one's owner, with all in it: root
// writes what the daemon reads.
func give(of, dir string) error {
	var owner unix.Stat_t
	if err := unix.Stat(of, &owner); err != nil || os.Geteuid() != 0 || int(owner.Uid) == 0 {
		return err
	}
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(owner.Uid), int(owner.Gid))
	})
}

// refuseSheet gives a sheet that may not be applied its exit code and says what to do.
func refuseSheet(err error) error {
	for _, why := range []error{provision.ErrSheet, provision.ErrOlder, provision.ErrOther, uplink.ErrEnrolFile, uplink.ErrEnrolled} {
		if errors.Is(err, why) {
			return cli.Exit(cli.Refused, err)
		}
	}
	return err
}
