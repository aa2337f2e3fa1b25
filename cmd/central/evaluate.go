package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/validate/game"
	"grattoir/validate/game/rules"
	"grattoir/validate/money"
)

// maxSymbolsLine bounds a ticket's symbols, in bytes.
const maxSymbolsLine = 4096

type evaluateFlags struct {
	rules, stake, lang string
	json               bool
}

// evaluateAnswer is what one ticket's symbols win.
type evaluateAnswer struct {
	Prize    *money.Amount `json:"prize_minor"` // null for symbols that are refused
	Currency string        `json:"currency"`
	Wins     []winAnswer   `json:"wins"`
	Error    *string       `json:"error"`
}

type winAnswer struct {
	Article string       `json:"article"`
	Amount  money.Amount `json:"amount_minor"`
	French  string       `json:"fr"`
	English string       `json:"en"`
}

func gameEvaluateCommand() *cobra.Command {
	var flags evaluateFlags
	cmd := &cobra.Command{
		Use:   "evaluate GAME SYMBOLS|-",
		Short: "Say what a ticket's symbols win, and by which article",
		Long: `Say what a ticket's symbols win by the rules of its game, part by part with the article
of the regulation. With - the symbols are read from standard input, a ticket a line;
lines of symbols.csv can be given as they are.

Exit status: 0 done, 1 not in the form of the game's symbols, 4 symbols that the
regulation excludes, or wins that add up to no prize.`,
		Example: `  central game evaluate bingo - < sample/symbols.csv
  central game evaluate crossingo "$SYMBOLS" --lang en --json`,
		Args: cli.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return evaluate(cmd, args[0], args[1], flags)
		},
	}
	cmd.Flags().StringVar(&flags.rules, "rules", "", "`file` of the rules' settings in place of the shipped ones")
	cmd.Flags().StringVar(&flags.stake, "stake", "", "for a game with several stakes: the `amount` in minor units")
	cmd.Flags().StringVar(&flags.lang, "lang", "fr", "language of the words: fr or en")
	cmd.Flags().BoolVar(&flags.json, "json", false, "print one JSON object for each ticket")
	return cmd
}

func evaluate(cmd *cobra.Command, name, symbols string, flags evaluateFlags) error {
	lang := money.French
	switch flags.lang {
	case "fr":
	case "en":
		lang = money.English
	default:
		return cli.Usagef("--lang %.10q: want fr or en", flags.lang)
	}
	g, err := findGame(name)
	if err != nil {
		return err
	}
	table, err := stakeTable(g, flags.stake)
	if err != nil {
		return err
	}
	r, err := readRules(g, table, flags.rules)
	if err != nil {
		return err
	}
	in := io.Reader(strings.NewReader(symbols))
	if symbols == "-" {
		in = cmd.InOrStdin()
	}
	return evaluateLines(in, cmd.OutOrStdout(), r, table.Currency, lang, flags.json)
}

// stakeTable picks the prize table of a stake.
func stakeTable(g game.Game, stake string) (game.Table, error) {
	var stakes []string
	for _, t := range g.Tables {
		if t.Stake == nil {
			continue
		}
		if text := fmt.Sprint(int64(*t.Stake)); text == stake {
			return t, nil
		} else {
			stakes = append(stakes, text)
		}
	}
	switch {
	case len(g.Tables) == 1 && stake == "":
		return g.Tables[0], nil
	case len(stakes) == 0:
		return game.Table{}, cli.Usagef("--stake: game %s has no stakes to choose from", g.ID)
	}
	return game.Table{}, cli.Usagef("--stake %.12q: game %s has %s", stake, g.ID, strings.Join(stakes, ", "))
}

// evaluateLines answers each line; the first that fails gives the exit status, and the
// rest are answered all the same.
func evaluateLines(in io.Reader, out io.Writer, r rules.Rules, currency string, lang money.Language, asJSON bool) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxSymbolsLine)
	w := bufio.NewWriter(out)
	code, failed, all := cli.Done, 0, 0
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || line == "pack,ticket,symbols" {
			continue
		}
		all++
		got, err := r.Evaluate([]byte(line[strings.LastIndexByte(line, ',')+1:]))
		if err != nil {
			failed++
			if c := evaluateCode(err); code == cli.Done {
				code = c
			}
		}
		if err := answerEvaluation(w, n, got, err, currency, lang, asJSON); err != nil {
			return err
		}
	}
	if err := errors.Join(lines.Err(), w.Flush()); err != nil {
		return fmt.Errorf("read symbols: %w", err)
	}
	if failed > 0 {
		return cli.Exit(code, fmt.Errorf("%d of %d tickets have no prize that can be told", failed, all))
	}
	if all == 0 {
		return errors.New("no symbols to evaluate")
	}
	return nil
}

func evaluateCode(err error) int {
	if errors.Is(err, rules.ErrForm) {
		return cli.Failed
	}
	return cli.Refused
}

func answerEvaluation(w io.Writer, n int, got rules.Result, failure error, currency string, lang money.Language, asJSON bool) error {
	if !asJSON {
		text := got.Text(currency, lang)
		for i, win := range got.Wins {
			text += []string{" [", ", "}[min(i, 1)] + win.Article
		}
		if len(got.Wins) > 0 {
			text += "]"
		}
		if failure != nil {
			text = "refused: " + failure.Error()
		}
		_, err := fmt.Fprintf(w, "%d: %s\n", n, text)
		return err
	}
	a := evaluateAnswer{Currency: currency, Wins: []winAnswer{}}
	if failure != nil {
		text := failure.Error()
		a.Error = &text
		return json.NewEncoder(w).Encode(a)
	}
	a.Prize = &got.Prize
	for _, win := range got.Wins {
		a.Wins = append(a.Wins, winAnswer{win.Article, win.Amount, win.French, win.English})
	}
	return json.NewEncoder(w).Encode(a) // an object a line: there may be millions
}
