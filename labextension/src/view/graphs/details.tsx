import { JSX } from 'preact';
import { useState } from 'preact/hooks';
import {
  Cause,
  Details as DetailsAnswer,
  Graph,
  HostOp
} from '../../protocol/messages';
import { Answered } from '../answered';
import { useEnv } from '../env';
import { bytesText, durationText, shapeText } from '../format';
import { Choice, Details, PlaceLink } from '../parts';
import { AliasMap } from './aliasMap';
import { DiffText } from './diff';
import { HloText } from './hlo';
import { GRAPH_STATES } from '../kinds';

/** One graph: why it was compiled, what goes in and out, its HLO, and how it differs from another. */
export function GraphDetails({
  graph,
  onClose
}: {
  graph: Graph;
  onClose: () => void;
}): JSX.Element {
  const { t } = useEnv();
  return (
    <Details title={graph.name} onClose={onClose}>
      <p>
        {t('%1 graph', graph.kind)}, {graph.state}:{' '}
        {t(GRAPH_STATES[graph.state])}.{' '}
        <PlaceLink place={graph.place} cell={graph.cell} />
      </p>
      <p class="xn-wrap">
        {t('hash')} <code>{graph.hash}</code>
      </p>
      <p>
        {[
          t.plural('%1 op', '%1 ops', graph.op_count),
          t('traced %1× in %2', graph.traces, durationText(graph.trace_ns)),
          graph.compiled
            ? t('compiled in %1', durationText(graph.compile_ns))
            : t('compiled before'),
          t.plural('%1 run', '%1 runs', graph.runs),
          t.plural(
            '%2 saved in %1 buffer',
            '%2 saved in %1 buffers',
            graph.saved_count,
            bytesText(graph.saved_nbytes)
          )
        ].join(' · ')}
      </p>
      <Causes causes={graph.causes} />
      <Answered<'get_details'>
        ask={{ type: 'get_details', graph_id: graph.graph_id }}
        again={`${graph.graph_id} ${graph.traces}`}
      >
        {answer => <Bindings answer={answer} />}
      </Answered>
      <Texts graph={graph} />
    </Details>
  );
}

function Causes({ causes }: { causes: readonly Cause[] }): JSX.Element | null {
  const { t } = useEnv();
  return causes.length ? (
    <>
      <h4>{t('Why it was compiled again')}</h4>
      <ul>
        {causes.map((cause, index) => (
          <li key={index}>
            {cause.what}
            {cause.fix !== null && (
              <div class="xn-fix">{t('To avoid it: %1', cause.fix)}</div>
            )}
            {cause.guard !== null && <code class="xn-wrap">{cause.guard}</code>}
          </li>
        ))}
      </ul>
    </>
  ) : null;
}

function Bindings({ answer }: { answer: DetailsAnswer }): JSX.Element {
  const { t } = useEnv();
  return (
    <>
      <h4>{t('Inputs that outputs replace')}</h4>
      <AliasMap answer={answer} />
      <h4>{t('Inputs')}</h4>
      <table class="xn-plain">
        <tbody>
          {answer.inputs.map((input, index) => (
            <tr key={index}>
              <td>{index}</td>
              <th scope="row">{input.name}</th>
              <td>{input.kind}</td>
              <td>{`${input.tensor.dtype} ${shapeText(input.tensor.shape)}`}</td>
              <td class="xn-right">{bytesText(input.tensor.nbytes)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <h4>{t('Outputs')}</h4>
      <table class="xn-plain">
        <tbody>
          {answer.outputs.map((tensor, index) => (
            <tr key={index}>
              <th scope="row">{index}</th>
              <td>{`${tensor.dtype} ${shapeText(tensor.shape)}`}</td>
              <td class="xn-right">{bytesText(tensor.nbytes)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <HostOps ops={answer.host_ops} />
    </>
  );
}

function HostOps({ ops }: { ops: readonly HostOp[] }): JSX.Element | null {
  const { t } = useEnv();
  return ops.length ? (
    <>
      <h4>{t('Ops that run on the host, around the graph')}</h4>
      <ul>
        {ops.map((op, index) => (
          <li key={index}>
            <code>{op.target}</code>: {op.why}
            {op.source !== null && ` (${op.source})`}
          </li>
        ))}
      </ul>
    </>
  ) : null;
}

/** What is long and is asked for only on demand. */
function Texts({ graph }: { graph: Graph }): JSX.Element {
  const { client, t } = useEnv();
  const [hlo, setHlo] = useState(false);
  const [other, setOther] = useState('');
  const others = [...client.model.graphs.values()].filter(
    candidate => candidate !== graph && candidate.state !== 'dropped'
  );
  return (
    <>
      <div class="xn-tools">
        <button
          type="button"
          class="xn-button"
          aria-expanded={hlo}
          onClick={() => setHlo(!hlo)}
        >
          {hlo ? t('Hide HLO') : t('Show HLO')}
        </button>
        <Choice
          label={t('Compare with')}
          value={other}
          choices={[
            ['', t('compare with…')],
            ...others.map(
              ({ graph_id, name }) => [String(graph_id), name] as const
            )
          ]}
          onChange={setOther}
        />
      </div>
      {hlo && (
        <Answered<'get_hlo'>
          ask={{ type: 'get_hlo', graph_id: graph.graph_id }}
          again={`${graph.graph_id} ${graph.traces}`}
        >
          {answer => <HloText hlo={answer} graph={graph} />}
        </Answered>
      )}
      {other !== '' && (
        <Answered<'get_diff'>
          key={other}
          ask={{
            type: 'get_diff',
            first: Number(other),
            second: graph.graph_id
          }}
          again={other}
        >
          {answer => <DiffText lines={answer.lines} />}
        </Answered>
      )}
    </>
  );
}
