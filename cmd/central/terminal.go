package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/central"
	"grattoir/sync/wire"
	"grattoir/validate/proof"
)

// folder is where central's data lies, as every operations' command takes it. The
// commands work while central serve runs on the same folder, and without it.
type folder struct {
	dir    string
	asJSON bool
}

func (f *folder) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.dir, "data", defaultServing().Data, "central's `folder`")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print the answer as JSON")
}

// act opens central for one act and prints its answer. Without create the folder must
// be central's already: a mistyped --data must not make a second CA.
func (f *folder) act(cmd *cobra.Command, create bool, do func(context.Context, *central.Central) (any, func(io.Writer) error, error)) (err error) {
	if !create {
		if found, err := central.Exists(f.dir); err != nil {
			return err
		} else if !found {
			return fmt.Errorf("no central in %s: name its folder with --data, or make one with central serve --data %s", f.dir, f.dir)
		}
	}
	c, err := central.Open(cmd.Context(), central.Options{Dir: f.dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	var answer any
	var text func(io.Writer) error
	err = audited(cmd, c, func(ctx context.Context) (err error) {
		answer, text, err = do(ctx, c)
		return err
	})
	if errors.Is(err, central.ErrRefused) {
		return cli.Exit(cli.Refused, err)
	}
	if err != nil {
		return err
	}
	if f.asJSON {
		return cli.JSON(cmd.OutOrStdout(), answer)
	}
	return text(cmd.OutOrStdout())
}

// table prints rows under a heading, in columns.
func table(w io.Writer, heading string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{strings.Fields(heading)}, rows...) {
		if _, err := fmt.Fprintln(t, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return t.Flush()
}

// when is a time in a table.
func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func terminalCommand() *cobra.Command {
	return cli.Group("terminal", "Add terminals, see them, say where they stand, publish their keys, suspend and resume them", terminalAddCommand(), terminalEnrolFileCommand(), terminalListCommand(),
		terminalShowCommand(), terminalBenchCommand(), terminalRecoverCommand(), terminalRegionCommand(), terminalShopCommand(), terminalKeyCommand(), terminalSuspendCommand(), terminalResumeCommand(), terminalReplaceCommand())
}

func terminalAddCommand() *cobra.Command {
	var f folder
	var region, shop string
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Make a terminal known and print the code it enrols with, once",
		Long: `Make a terminal known and print its enrolment code. The code works once, for 24 hours,
and names this central's CA, so that the device knows whom it enrols with. For a
terminal that never enrolled, or that is suspended, it is a new code. A terminal keeps the blocks of
its own packs first, then those of its region.`,
		Example: `  central terminal add shop-0042 --region bzh
  central terminal add shop-0042 --data /srv/central --json`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.act(cmd, true, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				if region != "" && !wire.ValidRegion(region) {
					return nil, nil, cli.Usagef("--region %.20q: want 1 to 16 of a-z, 0-9 and -, as bzh", region)
				}
				e, err := c.AddTerminal(ctx, args[0])
				if err == nil && region != "" {
					err = c.SetRegion(ctx, args[0], region)
				}
				if err == nil && shop != "" {
					err = c.SetShop(ctx, args[0], shop)
				}
				return e, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%s\n%s enrols with this code once, until %s: terminalctl enrol CODE\n", e.Code, e.Terminal, when(e.Expires))
					return err
				}, err
			})
		},
	}
	cmd.Flags().StringVar(&region, "region", "", "`region` it stands in")
	cmd.Flags().StringVar(&shop, "shop", "", "`shop` it stands in, where that has several; without it, a shop of its own")
	f.flags(cmd)
	return cmd
}

type enrolFileAnswer struct {
	Terminal string    `json:"terminal"`
	File     string    `json:"file"`
	Central  string    `json:"central"`
	Expires  time.Time `json:"expires"`
	Key      string    `json:"key"` // central's public key, which signs the file
}

func terminalEnrolFileCommand() *cobra.Command {
	var f folder
	var out, url string
	var days int
	cmd := &cobra.Command{
		Use:   "enrol-file NAME --central URL --out FILE",
		Short: "Make a terminal known by a signed file for its card, for a shop with no network",
		Long: `Make a terminal known and write a signed file for its card. With terminalctl enrol --file the
device makes its own key and works with no network; central certifies the key once it can be reached.
The file holds no private key. It holds a code that is good once, so carry it like one: whoever
uses it first is that terminal, and central refuses the other, which shows. It works on no
other terminal. Like add, it takes the place of an earlier code.`,
		Example: `  central terminal enrol-file shop-0042 --central https://central.example:8443 --out shop-0042.enrol
  central terminal enrol-file shop-0042 --central https://central.example:8443 --days 60 --out /media/card/enrol`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" || url == "" {
				return cli.Usagef("--central and --out are needed: where the device will find central, and the file\nTry: %s --help", cmd.CommandPath())
			}
			if _, err := os.Lstat(out); err == nil {
				return fmt.Errorf("%s exists, and its code would end: name another file, or take it away", out)
			}
			return f.act(cmd, true, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				text, e, err := c.EnrolFile(ctx, args[0], url, time.Duration(days)*24*time.Hour)
				if err == nil {
					err = writeNew(out, []byte(text), 0o600)
				}
				a := enrolFileAnswer{args[0], out, url, e.Expires, c.PublicKey()}
				return a, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%s: %s enrols with it once, until %s: terminalctl enrol --file %s\nsigned by %s\n", a.File, a.Terminal, when(a.Expires), a.File, a.Key)
					return err
				}, err
			})
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "`file` to write; it must not exist")
	cmd.Flags().StringVar(&url, "central", "", "central's `URL` as the device will reach it")
	cmd.Flags().IntVar(&days, "days", 30, "`days` for which it is good, at most 90")
	f.flags(cmd)
	return cmd
}

func terminalShopCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:   "shop NAME SHOP|-",
		Short: "Say in which shop a terminal stands",
		Long: `Say in which shop a terminal stands; - for a shop of its own, which has the terminal's
name. Two tills of one shop are two terminals: reports and settlements add them up.`,
		Example: `  central terminal shop shop-0042 tabac-12`,
		Args:    cli.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			shop := args[1]
			if shop == "-" {
				shop = ""
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				if err := c.SetShop(ctx, args[0], shop); err != nil {
					return nil, nil, err
				}
				t, err := c.Terminal(ctx, args[0])
				return t, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%s stands in shop %s\n", t.Name, cmp.Or(t.Shop, t.Name))
					return err
				}, err
			})
		},
	}
	f.flags(cmd)
	return cmd
}

func terminalRegionCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:   "region NAME REGION|-",
		Short: "Say in which region a terminal stands",
		Long: `Say in which region a terminal stands; - for none. It hears of it within minutes, and
keeps the blocks sold in that region next to those of its own packs.`,
		Example: `  central terminal region shop-0042 bzh`,
		Args:    cli.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			region := args[1]
			if region == "-" {
				region = ""
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				if err := c.SetRegion(ctx, args[0], region); err != nil {
					return nil, nil, err
				}
				t, err := c.Terminal(ctx, args[0])
				return t, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%s stands in region %s\n", t.Name, orDash(t.Region))
					return err
				}, err
			})
		},
	}
	f.flags(cmd)
	return cmd
}

type terminalKeyAnswer struct {
	Terminal    string           `json:"terminal"`
	Fingerprint string           `json:"fingerprint"` // of the key that was chosen, the newest without --fingerprint
	File        string           `json:"file"`        // "" when it was printed only
	Key         string           `json:"key"`
	Keys        []terminalKeyRow `json:"keys"` // all, the newest first
}

// terminalKeyRow is one key that a terminal enrolled.
type terminalKeyRow struct {
	Fingerprint string    `json:"fingerprint"`
	Enrolled    time.Time `json:"enrolled"`
	Until       time.Time `json:"until,omitzero"` // of an earlier one
	Key         string    `json:"key"`
}

func terminalKeyCommand() *cobra.Command {
	var f folder
	var out, fingerprint string
	cmd := &cobra.Command{
		Use:   "key NAME [--fingerprint F] [--out FILE.pem]",
		Short: "Publish the keys by which anybody can check a terminal's slips",
		Long: `Print the public keys of a terminal with the time in which each was its own, the newest first, or
write one to a new file: the newest, or that of --fingerprint. With it anybody can check the code on a slip
of that terminal and that time with no network (terminalctl slip verify), and the heads of its journal
(terminalctl journal verify --device-key).`,
		Example: `  central terminal key shop-0042
  central terminal key shop-0042 --out shop-0042.pem`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				a, err := terminalKeys(ctx, c, args[0], fingerprint)
				if err == nil && out != "" {
					a.File, err = out, writeNew(out, []byte(a.Key), 0o644)
				}
				return a, func(w io.Writer) error { return a.print(w, fingerprint != "") }, err
			})
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "`file` to write; it must not exist")
	cmd.Flags().StringVar(&fingerprint, "fingerprint", "", "`fingerprint` of one key, and of no other")
	f.flags(cmd)
	return cmd
}

// terminalKeys are a terminal's keys, and the one that is meant.
func terminalKeys(ctx context.Context, c *central.Central, name, fingerprint string) (terminalKeyAnswer, error) {
	a := terminalKeyAnswer{Terminal: name}
	list, err := c.DeviceKeys(ctx, name)
	if err != nil {
		return a, err
	}
	for _, d := range list {
		k := proof.Key{Terminal: name, Public: d.Public}
		row := terminalKeyRow{Fingerprint: k.Fingerprint(), Enrolled: d.Enrolled, Until: d.Until}
		if row.Key, err = k.Text(); err != nil {
			return a, err
		}
		if a.Key == "" && (fingerprint == "" || fingerprint == row.Fingerprint) {
			a.Fingerprint, a.Key = row.Fingerprint, row.Key
		}
		a.Keys = append(a.Keys, row)
	}
	if a.Key == "" {
		return a, cli.Usagef("terminal %s has no key with the fingerprint %.40q: central terminal key %s shows all", name, fingerprint, name)
	}
	return a, nil
}

func (a terminalKeyAnswer) print(w io.Writer, one bool) error {
	if a.File != "" {
		_, err := fmt.Fprintf(w, "%s: the key of %s, fingerprint %s\n", a.File, a.Terminal, a.Fingerprint)
		return err
	}
	if one || len(a.Keys) == 1 {
		_, err := io.WriteString(w, a.Key)
		return err
	}
	for _, k := range a.Keys {
		until := "now"
		if !k.Until.IsZero() {
			until = when(k.Until)
		}
		if _, err := fmt.Fprintf(w, "fingerprint %s, from %s until %s\n%s\n", k.Fingerprint, when(k.Enrolled), until, k.Key); err != nil {
			return err
		}
	}
	return nil
}

func terminalListCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the terminals, their state and how far their journals are held here",
		Example: `  central terminal list
  central terminal list --json`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				list, err := c.Terminals(ctx)
				return list, func(w io.Writer) error {
					var rows [][]string
					for _, t := range list {
						rows = append(rows, []string{t.Name, string(t.State), orDash(t.Region), when(t.Contact), fmt.Sprintf("%d-%06d", t.Acked.Epoch, t.Acked.Seq), fmt.Sprint(t.Unsent),
							fmt.Sprint(t.Snapshot), fmt.Sprint(t.Feed), when(t.CertExpires), orDash(strings.Join(t.Faults, ",")), orDash(string(t.Frozen)), orDash(t.Reason), orDash(t.Stopped)})
					}
					return table(w, "NAME STATE REGION CONTACT ACKED UNSENT SNAPSHOT FEED CERTIFICATE FAULTS FROZEN REASON STOPPED", rows)
				}, err
			})
		},
	}
	f.flags(cmd)
	return cmd
}

func terminalShowCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:     "show NAME",
		Short:   "Show one terminal: how it stands, why it is frozen, its certificates",
		Example: `  central terminal show shop-0042`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				t, err := c.Terminal(ctx, args[0])
				if err != nil {
					return nil, nil, err
				}
				certificates, err := c.Certificates(ctx, args[0])
				if err != nil {
					return nil, nil, err
				}
				unsettled, err := c.Unsettled(ctx, args[0])
				return struct {
					central.Terminal
					Certificates []central.Certificate `json:"certificates"`
					Unsettled    bool                  `json:"unsettled"` // central was restored, and it has not sent again what it holds
				}{t, certificates, unsettled}, func(w io.Writer) error { return showTerminal(w, t, certificates, unsettled) }, err
			})
		},
	}
	f.flags(cmd)
	return cmd
}

func showTerminal(w io.Writer, t central.Terminal, certificates []central.Certificate, unsettled bool) error {
	rows := [][2]string{{"terminal", t.Name}, {"state", string(t.State)}, {"why suspended", orDash(t.Reason)}, {"frozen", orDash(string(t.Frozen))}}
	if t.Frozen != "" {
		next := "look at its card, then: central terminal recover " + t.Name
		if t.Recover > 0 {
			next = fmt.Sprintf("a person has agreed: it reads its journal and goes on in epoch %d", t.Recover)
		}
		rows = append(rows, [2]string{"frozen since", when(t.FrozenAt)}, [2]string{"what next", next})
	}
	rows = append(rows, [2]string{"region", orDash(t.Region)}, [2]string{"shop", cmp.Or(t.Shop, t.Name)}, [2]string{"enrolled", when(t.Enrolled)}, [2]string{"last contact", when(t.Contact)}, [2]string{"program", orDash(t.Program)},
		[2]string{"journal held", fmt.Sprintf("%d-%06d", t.Acked.Epoch, t.Acked.Seq)}, [2]string{"journal as told", fmt.Sprintf("%d-%06d", t.Head.Epoch, t.Head.Seq)},
		[2]string{"unsent as told", fmt.Sprint(t.Unsent)}, [2]string{"faults", orDash(strings.Join(t.Faults, ","))})
	if unsettled {
		rows = append(rows, [2]string{"unsettled", "central was restored, and this terminal has not sent again what it holds a signature for"})
	}
	for _, c := range certificates {
		rows = append(rows, [2]string{"certificate", fmt.Sprintf("%s %s, until %s, first used %s", c.How, when(c.Issued), when(c.Expires), when(c.Used))})
	}
	for _, r := range rows {
		if _, err := fmt.Fprintf(w, "%-16s %s\n", r[0], r[1]); err != nil {
			return err
		}
	}
	return nil
}

func terminalRecoverCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:   "recover NAME",
		Short: "Agree that a frozen terminal reads its journal again and goes on in a new epoch",
		Long: `Agree that a frozen terminal comes back: within a minute it reads all that central holds of its
journal, carries what it wrote besides into a new journal epoch, and pays again after that. Look
at the card first. It is right for a card that was put back to an earlier state. Where another
device may have the terminal's key, suspend it and give it a new code instead.`,
		Example: `  central terminal recover shop-0042`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				if _, err := c.Recover(ctx, args[0]); err != nil {
					return nil, nil, err
				}
				t, err := c.Terminal(ctx, args[0])
				return t, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%s may read its journal again, and goes on in epoch %d\n", t.Name, t.Recover)
					return err
				}, err
			})
		},
	}
	f.flags(cmd)
	return cmd
}

func terminalSuspendCommand() *cobra.Command {
	var f folder
	var reason string
	var paymentsOnly bool
	cmd := &cobra.Command{
		Use:   "suspend NAME [--payments-only]",
		Short: "Refuse every request of a terminal from now on, or stop its payments alone",
		Long: `Refuse every request of a terminal from now on, whatever certificate it shows. To let
it in again, give it a new code with central terminal add. With --payments-only it goes
on sending its journal and hearing the feed, and pays nothing from the moment it hears of
it, also with no network, until central terminal resume.`,
		Example: `  central terminal suspend shop-0042 --reason "reported stolen"
  central terminal suspend shop-0042 --payments-only --reason "under inquiry"`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				suspend := c.Suspend
				if paymentsOnly {
					suspend = c.StopPayments
				}
				if err := suspend(ctx, args[0], reason); err != nil {
					return nil, nil, err
				}
				t, err := c.Terminal(ctx, args[0])
				return t, func(w io.Writer) error {
					if paymentsOnly {
						_, err := fmt.Fprintf(w, "the payments of %s are stopped: %s\n", t.Name, t.Stopped)
						return err
					}
					_, err := fmt.Fprintf(w, "%s is suspended: %s\n", t.Name, t.Reason)
					return err
				}, err
			})
		},
	}
	cmd.Flags().BoolVar(&paymentsOnly, "payments-only", false, "it goes on sending its journal, and pays nothing")
	cmd.Flags().StringVar(&reason, "reason", "suspended by operations", "why, in `words` the terminal's technician reads")
	f.flags(cmd)
	return cmd
}
