import { LabIcon } from '@jupyterlab/ui-components';

import svgstr from '../../style/icons/xla.svg';

export const xlaIcon = new LabIcon({ name: 'xla-notebook:xla', svgstr });
