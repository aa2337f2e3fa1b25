package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/central"
	"grattoir/sync/ledger/people"
	"grattoir/validate"
	"grattoir/validate/money"
)

func identityCommand() *cobra.Command {
	return cli.Group("identity", "Read whom a prize was paid to: one person asks, another agrees, the first reads", identityAskCommand(), identityAgreeCommand(), identityShowCommand(),
		identityListCommand(), identityAuditCommand(), identityEraseCommand())
}

func identityAskCommand() *cobra.Command {
	var f folder
	var operator, reason string
	cmd := &cobra.Command{
		Use:   "ask CLAIM | TERMINAL NUMBER --operator NAME --reason TEXT",
		Short: "Ask to read whom a payment was made to",
		Long: `Ask to read the identity that was recorded for a payment: by its claim's id, or by its terminal
and the ledger number on its slip. The request and its reason stand in the audit. Another user of the role
security agrees within an hour with central identity agree, or in the console. The operator's password is asked for, or is a line of
standard input.`,
		Example: `  central identity ask shop-0042 1-000017 --operator claire --reason "judicial request 2026/114"`,
		Args:    cli.Args(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if operator == "" || reason == "" {
				return cli.Usagef("--operator and --reason are needed: the audit says who asked, and why")
			}
			return f.actAs(cmd, operator, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				claim, err := claimNamed(ctx, c, args)
				if err != nil {
					return nil, nil, err
				}
				q, err := c.AskIdentity(ctx, claim, operator, reason)
				return q, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "request %d: somebody other than %s agrees to it until %s:\n  central identity agree %d --operator NAME\n", q.Number, q.Operator, when(q.Expires), q.Number)
					return err
				}, err
			})
		},
	}
	cmd.Flags().StringVar(&operator, "operator", "", "`name` of who asks")
	cmd.Flags().StringVar(&reason, "reason", "", "why, in `words` that the audit keeps")
	f.flags(cmd)
	return cmd
}

// actAs is act for one user, who shows a password first: only the two persons themselves can
// look at an identity, whoever has central's machine.
func (f *folder) actAs(cmd *cobra.Command, operator string, do func(context.Context, *central.Central) (any, func(io.Writer) error, error)) error {
	text, err := askPassword(cmd, "Password of "+operator)
	if err != nil {
		return err
	}
	return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
		if _, err := c.Authenticate(ctx, operator, central.TypedPassword(text)); err != nil {
			return nil, nil, cli.Exit(cli.Refused, fmt.Errorf("%.32q: %w", operator, err))
		}
		return do(ctx, c)
	})
}

type identityAgreeAnswer struct {
	Request int64  `json:"request"`
	Agreed  string `json:"agreed_by"`
}

func identityAgreeCommand() *cobra.Command {
	var f folder
	var operator string
	cmd := &cobra.Command{
		Use:   "agree REQUEST --operator NAME",
		Short: "Agree that somebody else reads what was asked for",
		Long: `Agree to a request of another user: that one may read the identity once, within an hour. central identity
list shows the requests and their reasons. The password is asked for, or is a line of standard input.`,
		Example: `  central identity agree 3 --operator denis`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || number < 1 || operator == "" {
				return cli.Usagef("want the request's number and --operator")
			}
			return f.actAs(cmd, operator, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				return identityAgreeAnswer{number, operator}, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "request %d: whoever asked may read it once, within an hour:\n  central identity show %d --operator NAME --key REGISTER.key\n", number, number)
					return err
				}, c.AgreeIdentity(ctx, number, operator)
			})
		},
	}
	cmd.Flags().StringVar(&operator, "operator", "", "`name` of who agrees, another than who asked")
	f.flags(cmd)
	return cmd
}

// claimNamed is the id of a payment, given as it is or by its slip's number.
func claimNamed(ctx context.Context, c *central.Central, args []string) (string, error) {
	if len(args) == 1 {
		return args[0], nil
	}
	var n validate.EntryNumber
	if _, err := fmt.Sscanf(args[1], "%d-%d", &n.Epoch, &n.Seq); err != nil || n.Epoch < 1 || n.Seq < 1 {
		return "", cli.Usagef("%.40q: want a ledger number as the slip shows it, like 1-000017", args[1])
	}
	return c.ClaimOf(ctx, args[0], n)
}

func identityShowCommand() *cobra.Command {
	var f folder
	var operator, key string
	cmd := &cobra.Command{
		Use:   "show REQUEST --operator NAME --key FILE",
		Short: "Read what you asked for and somebody else agreed to, with the register's private key",
		Long: `Read the identity that the same user asked for and another agreed to, within an hour. It is opened once; the
audit says so before anything is shown. The key is the private half of the register key (central key new --register): keep it off
this machine, where neither of the two persons reaches it alone. The password is asked for, or is a line of standard input.`,
		Example: `  central identity show 3 --operator claire --key /media/usb/register.key`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || number < 1 || operator == "" || key == "" {
				return cli.Usagef("want the request's number, --operator and --key")
			}
			secret, err := readRegisterKey(key)
			if err != nil {
				return err
			}
			var unopened error // what hides nothing of the rest
			err = f.actAs(cmd, operator, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				list, err := c.OpenIdentity(ctx, number, operator, secret)
				if len(list) > 0 {
					unopened, err = err, nil
				}
				return list, func(w io.Writer) error { return printFilings(w, list) }, err
			})
			if err == nil && unopened != nil {
				return cli.Exit(cli.Person, unopened)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&operator, "operator", "", "`name` of who asked for it")
	cmd.Flags().StringVar(&key, "key", "", "the register's private key, a `file`")
	f.flags(cmd)
	return cmd
}

// readRegisterKey reads a private key that nobody else can read.
func readRegisterKey(path string) (people.RegisterSecretKey, error) {
	info, err := os.Stat(path)
	if err != nil {
		return people.RegisterSecretKey{}, err
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		return people.RegisterSecretKey{}, cli.Usagef("others can read %s (mode %04o): chmod 600 it, and if others did read it, make a new key", path, info.Mode().Perm())
	}
	text, err := cli.ReadBounded(path, 4<<10)
	if err != nil {
		return people.RegisterSecretKey{}, err
	}
	key, err := people.ParseRegisterSecretKey(string(text))
	if err != nil {
		return key, cli.Usagef("%s: %w", path, err)
	}
	return key, nil
}

func printFilings(w io.Writer, list []people.Filing) error {
	for _, f := range list {
		i := f.Identity
		valid := ""
		if i.ValidTo != "" {
			valid = ", valid to " + i.ValidTo
		}
		if _, err := fmt.Fprintf(w, "record %v of terminal %s, by operator %s, %s (the device's clock)\n%s, %s\nborn %s, %s\n%s\n%s %s, %s%s\n",
			f.Record, f.Terminal, printable(f.Operator), orDash(f.Time), printable(i.Surname), printable(i.FirstNames), i.Born, printable(i.BirthPlace), printable(i.Address),
			i.Document, printable(i.Number), printable(i.IssuedBy), valid); err != nil {
			return err
		}
		for _, p := range f.Payments {
			if _, err := fmt.Fprintf(w, "payment %s: %s\n", p.Claim, money.Text(p.Amount, p.Currency, money.English, money.Receipt)); err != nil {
				return err
			}
		}
	}
	return nil
}

func identityListCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List who asked for what, who agreed, and what was opened",
		Example: `  central identity list`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				list, err := c.IdentityRequests(ctx)
				return list, func(w io.Writer) error {
					var rows [][]string
					for _, q := range list {
						rows = append(rows, []string{fmt.Sprint(q.Number), q.Claim, printable(q.Operator), when(q.Asked), orDash(printable(q.AgreedBy)), when(q.Opened), fmt.Sprint(q.Records), printable(q.Reason)})
					}
					return table(w, "REQUEST CLAIM ASKED-BY ASKED AGREED-BY OPENED RECORDS REASON", rows)
				}, err
			})
		},
	}
	f.flags(cmd)
	return cmd
}

type identityAuditAnswer struct {
	central.AuditHead
	Acts []central.AuditLine `json:"acts"`
}

func identityAuditCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Print the audit's lines of the register, after its chain was verified",
		Long: `Print every act upon the register, and how many lines the whole audit has with the hash of the newest. Note that hash elsewhere: it shows
later that nothing was cut off. A line that was changed or removed is an error.`,
		Example: `  central identity audit --json`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				acts := []central.AuditLine{}
				head, err := c.Audit(ctx, func(a central.AuditLine) error {
					if central.OfIdentities(a.Act) {
						acts = append(acts, a)
					}
					return nil
				})
				return identityAuditAnswer{head, acts}, func(w io.Writer) error {
					var rows [][]string
					for _, a := range acts {
						rows = append(rows, []string{fmt.Sprint(a.Seq), a.Time, a.Act, printable(a.Operator), printable(a.About)})
					}
					if err := table(w, "LINE TIME ACT OPERATOR ABOUT", rows); err != nil {
						return err
					}
					_, err := fmt.Fprintf(w, "%d lines in all, head %s\n", head.Lines, head.Head)
					return err
				}, err
			})
		},
	}
	f.flags(cmd)
	return cmd
}

type identityEraseAnswer struct {
	Erased int `json:"erased"`
}

func identityEraseCommand() *cobra.Command {
	var f folder
	days := defaultServing().Identities.KeepDays
	cmd := &cobra.Command{
		Use:   "erase [--keep-days N]",
		Short: "Erase the identities whose term has passed (central serve does it each day)",
		Long: `Erase the identities that were received longer than the term ago. Their bytes are overwritten in the
database and in its log; copies of the database are yours to erase.`,
		Example: `  central identity erase`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkKeepDays(days); err != nil {
				return err
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				n, err := c.EraseIdentities(ctx, time.Duration(days)*24*time.Hour)
				return identityEraseAnswer{n}, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%d identities erased\n", n)
					return err
				}, err
			})
		},
	}
	cmd.Flags().IntVar(&days, "keep-days", days, "`days` after which an identity is erased")
	f.flags(cmd)
	return cmd
}

// checkKeepDays bounds the term: years, and never none by a slip of the finger.
func checkKeepDays(days int) error {
	if days < 30 || days > 3660 {
		return cli.Usagef("keep_days = %d: want 30 to 3660 (the law says five years, 1827)", days)
	}
	return nil
}

// eraseDaily erases identities at the start and each day, until ctx ends.
func eraseDaily(ctx context.Context, c *central.Central, s serving, fail func(error), erased func(int)) {
	for {
		n, err := c.EraseIdentities(ctx, time.Duration(s.Identities.KeepDays)*24*time.Hour)
		switch {
		case errors.Is(err, context.Canceled):
			return
		case err != nil:
			fail(err)
		case n > 0:
			erased(n)
		}
		day := time.NewTimer(24 * time.Hour)
		select {
		case <-ctx.Done():
			day.Stop()
			return
		case <-day.C:
		}
	}
}
