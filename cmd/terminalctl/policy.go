package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/device/control"
	"grattoir/sync/uplink"
	"grattoir/validate/manifest"
	"grattoir/validate/policy"
)

func policyCommand() *cobra.Command {
	return cli.Group("policy", "Bring signed limits to a terminal", policyImportCommand())
}

// importAnswer is a policy that lies in the terminal's folder now.
type importAnswer struct {
	File      string   `json:"file"`
	Version   string   `json:"version"`
	ValidFrom string   `json:"valid_from"`
	ValidTo   *string  `json:"valid_to"` // null for no end
	SignedBy  []string `json:"signed_by"`
	InForce   *string  `json:"in_force"` // version in force at the daemon now, "" for none; null when it was not told
}

func policyImportCommand() *cobra.Command {
	var keys []string
	var dir, socket string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "import FILE --key PUB --into DIR",
		Short: "Verify a signed policy, put it into a terminal's folder, tell the daemon",
		Long: `Verify a signed policy, copy it into the terminal's folder of policies under its version,
durable and whole or not at all, and tell the running daemon to take it. A daemon that does
not run takes it at its next start. It holds from its first day on; a terminal that has no
trusted time pays by it at once.`,
		Example: `  terminalctl policy import /media/usb/2026-1.policy --key /etc/grattoir/lottery.pub --into /var/lib/grattoir/policies`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir == "" {
				return cli.Usagef("--into is missing: name the terminal's folder of policies")
			}
			if info, err := os.Stat(dir); err != nil || !info.IsDir() {
				return cli.Exit(cli.Failed, fmt.Errorf("the folder %s does not exist: --into names the terminal's folder of policies, data/policies beside its ledger", dir))
			}
			ring, err := readKeys(keys)
			if err != nil {
				return err
			}
			a, err := importPolicy(args[0], dir, ring)
			if err != nil {
				return err
			}
			st, told := newClient(socket).Rescan(cmd.Context())
			if told == nil {
				a.InForce = &st.Policy
			}
			if asJSON {
				err = cli.JSON(cmd.OutOrStdout(), a)
			} else {
				err = a.print(cmd.OutOrStdout())
			}
			if err != nil {
				return err
			}
			if told != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "terminalctl: the daemon was not told, it takes the policy at its next start: %v\n", told)
				return nil
			}
			return takenBy(st, a)
		},
	}
	cmd.Flags().StringArrayVar(&keys, "key", nil, "`file` of a public key that may sign; may be given several times")
	cmd.Flags().StringVar(&dir, "into", "", "the terminal's `folder` of policies")
	socketFlag(cmd, &socket)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// importPolicy verifies a file and stores it under its version. Another policy of that
// version is never overwritten.
func importPolicy(path, dir string, ring manifest.Keys) (importAnswer, error) {
	signed, err := cli.ReadBounded(path, policy.MaxText)
	if err != nil {
		return importAnswer{}, err
	}
	text, by, err := ring.Open(signed)
	if err != nil {
		return importAnswer{}, fmt.Errorf("%s: %w", path, err)
	}
	p, err := policy.Parse(text)
	if err != nil {
		return importAnswer{}, fmt.Errorf("%s: %w", path, err)
	}
	a := importAnswer{File: filepath.Join(dir, p.Version+".policy"), Version: p.Version, ValidFrom: p.ValidFrom.String(), SignedBy: by}
	if !p.ValidTo.IsZero() {
		a.ValidTo = new(p.ValidTo.String())
	}
	if there, err := cli.ReadBounded(a.File, policy.MaxText); err == nil {
		if old, _, err := ring.Open(there); err == nil && old != text {
			return importAnswer{}, fmt.Errorf("%s: %w: %s says something else", path, policy.ErrVersion, a.File)
		}
	}
	return a, errors.Join(uplink.WriteWhole(a.File, signed), os.Chmod(a.File, 0o644)) // the daemon may be another user
}

func (a importAnswer) print(out io.Writer) error {
	days := "from " + a.ValidFrom + " on"
	if a.ValidTo != nil {
		days = "from " + a.ValidFrom + " to " + *a.ValidTo
	}
	_, err := fmt.Fprintf(out, "%s: policy %s, %s\n", a.File, a.Version, days)
	if err == nil && a.InForce != nil {
		_, err = fmt.Fprintf(out, "in force now: %s\n", inForce(*a.InForce))
	}
	return err
}

func inForce(version string) string {
	if version == "" {
		return "none, nothing is paid"
	}
	return version
}

// takenBy is nil when the daemon has accepted the policy.
func takenBy(st control.Status, a importAnswer) error {
	for _, p := range st.Limits.Signed {
		if p.Version == a.Version && p.File != "" {
			return nil
		}
	}
	for _, f := range st.Limits.Unusable {
		if f.File == filepath.Base(a.File) {
			return fmt.Errorf("the daemon does not use policy %s: %s", a.Version, f.Why)
		}
	}
	return fmt.Errorf("the daemon does not see policy %s: --into is not its folder of policies", a.Version)
}

// noTime is why a policy may hold before its first day.
const noTime = "no verified time here, so the newest one holds whatever its days"

// early says that a policy holds though its first day has not come by the device's clock.
func early(p control.SignedPolicy, st control.Status) bool {
	return p.InForce && st.Trusted.IsZero() && !st.Now.IsZero() && p.ValidFrom > st.Now.Local().Format(time.DateOnly)
}

// printLimits says by which policy the terminal pays, and what is odd about the others.
func printLimits(w io.Writer, st control.Status) {
	from := map[string]string{"signed": "signed", "configuration": "from the configuration", "none": "every signed one is over"}[st.Limits.Source]
	fmt.Fprintf(w, "Policy\t%s (%s)\n", inForce(st.Policy), from)
	if f := st.Limits.Fault; f != nil {
		fmt.Fprintf(w, "\t%s %s\n", f.Code, cli.Line(f.Technician))
	}
	for _, p := range st.Limits.Signed {
		days := "from " + p.ValidFrom + " on"
		if p.ValidTo != nil {
			days = "from " + p.ValidFrom + " to " + *p.ValidTo
		}
		if p.File == "" {
			days += "; its file has gone, it counts until the next start"
		}
		if early(p, st) {
			days += "; in force already: " + noTime
		}
		fmt.Fprintf(w, "\t%s, %s\n", p.Version, days)
	}
	for _, f := range st.Limits.Unusable {
		fmt.Fprintf(w, "\tNOT USABLE: %s\n", cli.Line(f.File+": "+f.Why))
	}
	for _, f := range st.Limits.Findings {
		fmt.Fprintf(w, "\t%s\n", f)
	}
}
