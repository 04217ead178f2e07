/** The editor of SQL statements: CodeMirror inside a shadow root, where it needs no inline style. */

import { autocompletion, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { keywordCompletionSource, PostgreSQL, schemaCompletionSource, sql } from "@codemirror/lang-sql";
import { bracketMatching, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { Compartment, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";

/** Columns of each table, and the names of functions. */
export interface Vocabulary {
  tables: Record<string, string[]>;
  functions: string[];
}

const theme = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--surface)", fontSize: "13px", height: "100%" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--text)", padding: "8px 0" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { color: "var(--muted)", backgroundColor: "var(--surface)", border: "none" },
  ".cm-placeholder": { color: "var(--muted)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--selected)" },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { backgroundColor: "var(--mark)", color: "var(--text)" },
  ".cm-tooltip": { color: "var(--text)", backgroundColor: "var(--raised)", border: "1px solid var(--line)" },
  ".cm-tooltip-autocomplete ul li": { color: "var(--text)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { color: "var(--text)", backgroundColor: "var(--selected)" },
  ".cm-completionDetail": { color: "var(--muted)" },
});

const highlight = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--accent)", fontWeight: "600" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--good)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--warn)" },
  { tag: tags.comment, color: "var(--muted)", fontStyle: "italic" },
]);

export interface Editor {
  view: EditorView;
  learn: (vocabulary: Vocabulary) => void;
}

export function createEditor(host: HTMLElement, text: string, change: (text: string) => void, run: () => void): Editor {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const completion = new Compartment();
  const state = EditorState.create({
    doc: text,
    extensions: [
      lineNumbers(),
      history(),
      drawSelection(),
      bracketMatching(),
      sql({ dialect: PostgreSQL, upperCaseKeywords: true }),
      syntaxHighlighting(highlight),
      theme,
      placeholder("SELECT … FROM logs"),
      completion.of([]),
      EditorView.lineWrapping,
      EditorView.contentAttributes.of({ "aria-label": "SQL statement", spellcheck: "false" }),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) change(update.state.doc.toString());
      }),
      EditorView.domEventHandlers({ beforeinput: insertText }),
      // Tab leaves the editor, as in other fields.
      keymap.of([{ key: "Mod-Enter", run: () => (run(), true) }, ...defaultKeymap, ...historyKeymap]),
    ],
  });
  const view = new EditorView({ state, parent: root, root });
  return {
    view,
    learn: (vocabulary) => view.dispatch({ effects: completion.reconfigure(complete(vocabulary)) }),
  };
}

/**
 * Insert typed text without the browser's own editing, which would keep the look of what it replaces by an inline style:
 * the security policy forbids that. Composed text is left to the browser.
 */
function insertText(event: InputEvent, view: EditorView): boolean {
  if (event.inputType !== "insertText" || event.data === null || view.composing || event.isComposing) return false;
  event.preventDefault();
  view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
  return true;
}

function complete({ tables, functions }: Vocabulary): ReturnType<typeof autocompletion> {
  const options = functions.map((name) => ({ label: name, type: "function", apply: `${name}(` }));
  const completeFunctions = (context: CompletionContext): CompletionResult | null => {
    const word = context.matchBefore(/\w+/);
    if (!word || (word.from === word.to && !context.explicit)) return null;
    return { from: word.from, options, validFor: /^\w*$/ };
  };
  return autocompletion({
    override: [
      schemaCompletionSource({ dialect: PostgreSQL, schema: tables }),
      keywordCompletionSource(PostgreSQL, true),
      completeFunctions,
    ],
  });
}
